// Which elements a dropout keeps.

// Philox words of sixteen positions, as [word of a position][position]: a lane a position, in loops that compilers turn
// into vectors.
struct PhiloxLanes {
  std::uint32_t word[4][kLanes];
};
__attribute__((noinline)) void philox_lanes(const DropoutMask& mask, std::uint64_t position, PhiloxLanes* lanes) {
  auto& word = lanes->word;
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t at = position + static_cast<std::uint64_t>(i);
    word[0][i] = static_cast<std::uint32_t>(at);
    word[1][i] = static_cast<std::uint32_t>(at >> 32);
    word[2][i] = static_cast<std::uint32_t>(mask.stream);
    word[3][i] = static_cast<std::uint32_t>(mask.stream >> 32);
  }
  auto key0 = static_cast<std::uint32_t>(mask.seed), key1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9, key1 += 0xbb67ae85)  // as in lib/philox.h
    for (int i = 0; i < kLanes; ++i) {
      const std::uint64_t a = std::uint64_t{0xd2511f53} * word[0][i], b = std::uint64_t{0xcd9e8d57} * word[2][i];
      word[0][i] = static_cast<std::uint32_t>(b >> 32) ^ word[1][i] ^ key0;
      word[1][i] = static_cast<std::uint32_t>(b);
      word[2][i] = static_cast<std::uint32_t>(a >> 32) ^ word[3][i] ^ key1;
      word[3][i] = static_cast<std::uint32_t>(a);
    }
}

// The factors of elements first ... first + count - 1, `step` apart. A position has the words of four elements.
template <class T>
__attribute__((noinline)) void draw_factors(const DropoutMask& mask, Index first, Index count, T* to, Index step) {
  T dropped{}, kept[kLanes];
  constant<Vec<T>>(mask.factor).store(kept);
  const auto begin = static_cast<std::uint64_t>(first);
  const bool drops_all = mask.threshold >> 32 != 0;
  const auto threshold = static_cast<std::uint32_t>(mask.threshold);
  std::uint64_t position = mask.position + begin / 4;
  for (Index i = -static_cast<Index>(begin % 4); i < count; i += 4 * kLanes, position += kLanes) {
    PhiloxLanes drawn;
    philox_lanes(mask, position, &drawn);
    T factors[4][kLanes];
    for (int word = 0; word < 4; ++word)
      for (int lane = 0; lane < kLanes; ++lane)
        factors[word][lane] = drops_all || drawn.word[word][lane] < threshold ? dropped : kept[0];
    const Index from = i < 0 ? -i : 0, end = count - i < 4 * kLanes ? count - i : 4 * kLanes;
    T* next = to + (i + from) * step;
    for (Index e = from; e < end; ++e, next += step) *next = factors[e % 4][e / 4];
  }
}

template <class T>
void dropout_factors(const void* arguments, Index begin, Index end) {
  const auto& d = *static_cast<const DropoutArguments*>(arguments);
  const Index first = begin * kDropoutBlock, stop = end * kDropoutBlock < d.count ? end * kDropoutBlock : d.count;
  draw_factors<T>(d.mask, first, stop - first, static_cast<T*>(d.y) + first, 1);
}
