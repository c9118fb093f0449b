// Assigns documents to groups and stores one 64-bit word per document. A group holds the training documents or the
// held-out documents of one language and source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace bloomery::index {

struct Group {
    std::uint64_t documents = 0;
    std::uint64_t tokens = 0;
    std::uint64_t longest = 0;  // tokens of the longest document
    std::vector<std::unique_ptr<std::uint64_t[]>> blocks;
};

// Columns and settings that decide the group of each document.
struct Keys {
    const std::int32_t* languages;      // number of each document's language
    const std::int32_t* sources;        // number of each document's source
    const std::uint64_t* split_keys;    // split key of each document
    std::uint64_t held_out_below;       // documents with a smaller split key are held out
    bool all_held_out;                  // if true, all documents are held out
    const std::int32_t* pairs;          // number of each pair of language and source, [languages, sources]
    std::size_t language_count;
    std::size_t source_count;
};

class Deal {
   public:
    // Adds documents `first`, first + 1, ... to group 2 * pair, or to group 2 * pair + 1 if they are held out. Throws
    // std::invalid_argument for a number out of range or a negative length.
    void add(std::uint64_t first, const std::int32_t* lengths, std::size_t count, const Keys& keys);

    const std::vector<Group>& groups() const { return groups_; }

    // Copies the words of a group to `out` in order and frees their memory block by block.
    void take(std::size_t group, std::uint64_t* out);

   private:
    std::vector<Group> groups_;
};

}  // namespace bloomery::index
