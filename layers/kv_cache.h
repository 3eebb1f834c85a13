// The keys and values of what an attention layer has read, so that the next token need not read it again.
#pragma once

#include "attune/lib/tensor.h"

namespace attune {

// Of one layer, for a batch: room for `capacity` tokens, of which length() are filled. It owns its memory. Used under
// NoGrad.
class KvCache {
 public:
  // keys [B, Hkv, capacity, d] and values [B, Hkv, capacity, dv], both empty.
  KvCache(const Shape& keys, const Shape& values, DType dtype);

  Index length() const { return length_; }
  Index capacity() const { return keys_.shape()[2]; }
  // Both of L more tokens: [B, Hkv, L, d] and [B, Hkv, L, dv]. Throws, and changes nothing, where they do not fit.
  void append(const ConstView& keys, const ConstView& values);
  // Forgets all but the first `length`.
  void truncate(Index length);

  // [B, Hkv, length, d] and [B, Hkv, length, dv]. They live as long as the cache.
  ConstView keys() const { return keys_.view().slice(2, 0, length_); }
  ConstView values() const { return values_.view().slice(2, 0, length_); }

 private:
  friend struct MultiHeadAttention;
  Tensor keys_, values_;
  Index length_ = 0;
};

namespace detail {
// What read() returns, which makes the cache longer; where it throws, the cache is as long as before.
template <class Cache, class Read>
auto read_or_forget(Cache& cache, Read&& read) {
  const Index before = cache.length();
  try {
    return read();
  } catch (...) {
    cache.truncate(before);
    throw;
  }
}
}  // namespace detail

}  // namespace attune
