// A vector of trivially copyable values that grows by realloc. For large blocks, the C library moves pages instead of
// copying them. Growth therefore never holds the old and the new copy at the same time, unlike std::vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace bloomery::bpe {

template <typename T>
class GrowArray {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    GrowArray() = default;
    GrowArray(const GrowArray&) = delete;
    GrowArray& operator=(const GrowArray&) = delete;
    ~GrowArray() { std::free(data_); }

    T& operator[](std::size_t index) { return data_[index]; }
    const T& operator[](std::size_t index) const { return data_[index]; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    std::size_t size() const { return size_; }

    void push_back(T value) {
        if (size_ == capacity_) reserve(size_ + size_ / 2 + 64);
        data_[size_++] = value;
    }

    void pop_back() { --size_; }

    void append(const T* values, std::size_t count) {
        if (count == 0) return;
        resize(size_ + count);
        std::copy_n(values, count, data_ + size_ - count);
    }

    void swap(GrowArray& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    // New entries are not initialised.
    void resize(std::size_t size) {
        if (size > capacity_) reserve(size > capacity_ + capacity_ / 2 ? size : capacity_ + capacity_ / 2);
        size_ = size;
    }

    void clear() { size_ = 0; }

    // Frees the memory after the last entry.
    void shrink() {
        if (size_ == capacity_) return;
        void* data = std::realloc(static_cast<void*>(data_), (size_ > 0 ? size_ : 1) * sizeof(T));
        if (data == nullptr) return;
        data_ = static_cast<T*>(data);
        capacity_ = size_ > 0 ? size_ : 1;
    }

    void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        if (capacity > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
        void* data = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
        if (data == nullptr) throw std::bad_alloc();
        data_ = static_cast<T*>(data);
        capacity_ = capacity;
    }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace bloomery::bpe
