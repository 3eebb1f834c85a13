// Which elements a dropout keeps.

// The factors of elements first ... first + n - 1, n at most 16. Blocks of four words are drawn once each.
template <class T>
INLINE Vec<T> dropout_lanes(const DropoutMask& mask, Index first, int n) {
  const auto begin = static_cast<std::uint64_t>(first);
  const auto skipped = static_cast<int>(begin % 4);
  std::uint32_t words[kLanes + 4];
  for (int block = 0; 4 * block < skipped + n; ++block) {
    const PhiloxCounter drawn = philox_at(mask.seed, mask.stream, mask.position + begin / 4 + static_cast<unsigned>(block));
    for (int i = 0; i < 4; ++i) words[4 * block + i] = drawn.word[i];
  }
  T kept[kLanes];
  constant<Vec<T>>(mask.factor).store(kept);
  for (int i = 0; i < kLanes; ++i)
    if (i >= n || words[skipped + i] < mask.threshold) kept[i] = T{};
  return Vec<T>::load(kept);
}

template <class T>
void dropout_factors(const void* arguments, Index begin, Index end) {
  const auto& d = *static_cast<const DropoutArguments*>(arguments);
  T* y = static_cast<T*>(d.y);
  const Index stop = end * kDropoutBlock < d.count ? end * kDropoutBlock : d.count;
  for (Index i = begin * kDropoutBlock; i < stop; i += kLanes) {
    const int n = stop - i < kLanes ? static_cast<int>(stop - i) : kLanes;
    dropout_lanes<T>(d.mask, i, n).store(y + i, n);
  }
}
