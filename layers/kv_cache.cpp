#include "attune/layers/kv_cache.h"

#include "attune/lib/kernels/elementwise.h"

namespace attune {
namespace {

Shape with_length(Shape shape, Index length) {
  shape[2] = length;
  return shape;
}

}  // namespace

KvCache::KvCache(const Shape& keys, const Shape& values, DType dtype) {
  const bool alike = keys.rank() == 4 && values.rank() == 4 && std::equal(keys.begin(), keys.begin() + 3, values.begin());
  check(alike, "kv_cache: keys {} and values {} are not [batch, heads, capacity, width] of one kind", keys, values);
  keys_ = Tensor(keys, dtype);
  values_ = Tensor(values, dtype);
}

void KvCache::append(const ConstView& keys, const ConstView& values) {
  const Index more = keys.rank() == 4 ? keys.size(2) : 0;
  const bool fits = keys.shape() == with_length(keys_.shape(), more) && values.shape() == with_length(values_.shape(), more);
  check(fits && keys.dtype() == keys_.dtype() && values.dtype() == keys_.dtype(),
        "kv_cache: keys {} {} and values {} {} do not fit a cache of {} {} and {}", keys.dtype(), keys.shape(),
        values.dtype(), values.shape(), keys_.dtype(), keys_.shape(), values_.shape());
  check(length_ + more <= capacity(), "kv_cache: {} tokens after {} do not fit into {}", more, length_, capacity());
  kernels::copy(keys_.view().slice(2, length_, length_ + more), keys);
  kernels::copy(values_.view().slice(2, length_, length_ + more), values);
  length_ += more;
}

void KvCache::truncate(Index length) {
  check(length >= 0 && length <= length_, "kv_cache: no {} of {} tokens can be kept", length, length_);
  length_ = length;
}

}  // namespace attune
