// Deals documents to groups (a language's text of a source, to train on or held out) and keeps a word for each.
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

// Which group a document belongs to.
struct Keys {
    const std::int32_t* languages;      // number of each document's language
    const std::int32_t* sources;        // and source
    const std::uint64_t* split_keys;    // and the hash that may hold it out
    std::uint64_t held_out_below;       // held out: the hash is less than this,
    bool all_held_out;                  // or all are
    const std::int32_t* pairs;          // number of each (language, source), [languages, sources]
    std::size_t language_count;
    std::size_t source_count;
};

class Deal {
   public:
    // Documents `first`, first + 1, ... : group 2 * pair, or 2 * pair + 1 when held out. Throws std::invalid_argument
    // for numbers out of range and negative lengths.
    void add(std::uint64_t first, const std::int32_t* lengths, std::size_t count, const Keys& keys);

    const std::vector<Group>& groups() const { return groups_; }

    // The words of a group in order, to `out`; their memory is given back as they go.
    void take(std::size_t group, std::uint64_t* out);

   private:
    std::vector<Group> groups_;
};

}  // namespace bloomery::index
