#include "attune/lib/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstring>
#include <limits>

#include "attune/lib/file.h"
#include "attune/lib/utf8.h"

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so is this code");

namespace attune {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit, too
constexpr std::string_view kMetadata = "__metadata__";

// A name as an error message shows it: never a page of it.
std::string shown(std::string_view name) {
  constexpr std::size_t longest = 80;
  if (name.size() <= longest) return json_string(name);
  name = name.substr(0, longest);
  return json_string(name.substr(0, valid_utf8(name))) + "...";
}

// ---- The header ---------------------------------------------------------------------------------

// What a number is in the file, how wide, and what it is once loaded.
struct StoredType {
  enum Kind { F64, F32, F16, BF16, I64, I32, U8, BOOL } kind;
  std::string_view name;
  std::uint64_t bytes;
  DType loaded;
};
constexpr StoredType kStoredTypes[] = {
    {StoredType::F64, "F64", 8, f64},   {StoredType::F32, "F32", 4, f32},   {StoredType::F16, "F16", 2, f32},
    {StoredType::BF16, "BF16", 2, f32}, {StoredType::I64, "I64", 8, i32},   {StoredType::I32, "I32", 4, i32},
    {StoredType::U8, "U8", 1, i32},     {StoredType::BOOL, "BOOL", 1, i32},
};

struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the data
};

struct Header {
  std::vector<Entry> entries;
  Metadata metadata;
};

// Reads a header's JSON. It takes no JSON but what a header is made of, so it needs no recursion and no tree.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    at_ = valid_utf8(text_);
    if (at_ < text_.size()) fail("not UTF-8");
    at_ = 0;
    if (text_.empty() || text_[0] != '{') fail(fmt::format("a header starts with '{{', not with {}", next()));
    Header header;
    object([&](std::string&& name) {
      if (name == kMetadata)
        parse_metadata(header.metadata);
      else
        header.entries.push_back(parse_entry(std::move(name)));
    });
    skip_spaces();
    if (at_ < text_.size()) fail(fmt::format("{} after the end of the header's object", next()));
    return header;
  }

 private:
  void parse_metadata(Metadata& metadata) {
    if (has_metadata_) fail(fmt::format("{} stands here twice", kMetadata));
    has_metadata_ = true;
    object([&](std::string&& key) {
      std::string value = string();
      const auto [place, is_new] = metadata.emplace(std::move(key), std::move(value));
      if (!is_new) fail(fmt::format("the key {} of {} stands here twice", shown(place->first), kMetadata));
    });
  }

  Entry parse_entry(std::string&& name) {
    constexpr std::string_view keys[] = {"dtype", "shape", "data_offsets"};
    Entry entry;
    entry.name = std::move(name);
    std::bitset<3> seen;
    object([&](std::string&& key) {
      const auto known = static_cast<std::size_t>(std::ranges::find(keys, key) - keys);
      if (known == seen.size()) fail_tensor(entry.name, fmt::format("the key {} is unknown", shown(key)));
      if (seen[known]) fail_tensor(entry.name, fmt::format("the key {} stands here twice", shown(key)));
      seen.set(known);
      if (known == 0)
        entry.type = parse_type(entry.name);
      else if (known == 1)
        entry.shape = parse_shape(entry.name);
      else
        parse_offsets(entry);
    });
    if (!seen.all()) fail_tensor(entry.name, "it needs a dtype, a shape and data_offsets");
    return entry;
  }

  const StoredType* parse_type(const std::string& tensor) {
    const std::string name = string();
    for (const StoredType& type : kStoredTypes)
      if (type.name == name) return &type;
    std::string known;
    for (const StoredType& type : kStoredTypes)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
    fail_tensor(tensor, fmt::format("the type {} is not one of {}", shown(name), known));
  }

  Shape parse_shape(const std::string& tensor) {
    Shape shape;
    array([&] {
      if (shape.rank() == kMaxRank)
        fail_tensor(tensor, fmt::format("its rank is above the limit of {}", kMaxRank));
      const std::uint64_t size = number();
      if (size > std::uint64_t{std::numeric_limits<Index>::max()})
        fail_tensor(tensor, fmt::format("a size of {}", size));
      shape.append(static_cast<Index>(size));
    });
    return shape;
  }

  void parse_offsets(Entry& entry) {
    int count = 0;
    array([&] {
      const std::uint64_t offset = number();
      if (count == 0) entry.begin = offset;
      if (count == 1) entry.end = offset;
      ++count;
    });
    if (count != 2) fail_tensor(entry.name, fmt::format("{} data_offsets, not two", count));
  }

  // ---- JSON

  template <class F>
  void object(F&& member) {
    expect('{');
    if (accept('}')) return;
    do {
      std::string key = string();
      expect(':');
      member(std::move(key));
    } while (accept(','));
    expect('}');
  }

  template <class F>
  void array(F&& item) {
    expect('[');
    if (accept(']')) return;
    do item();
    while (accept(','));
    expect(']');
  }

  std::uint64_t number() {
    skip_spaces();
    const std::size_t start = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
          __builtin_add_overflow(value, digit, &value))
        fail("a number of more than 64 bits");
    }
    if (at_ == start) fail(fmt::format("{} instead of a number without sign", next()));
    if (at_ - start > 1 && text_[start] == '0') fail("a number with a leading zero");
    return value;
  }

  std::string string() {
    expect('"');
    std::string result;
    for (;;) {
      if (at_ == text_.size()) fail("a string without end");
      const char letter = text_[at_];
      if (static_cast<unsigned char>(letter) < 0x20) fail("a control character in a string");
      ++at_;
      if (letter == '"') return result;
      if (letter == '\\')
        escape(result);
      else
        result += letter;
    }
  }

  void escape(std::string& result) {
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const char letter = at_ < text_.size() ? text_[at_++] : '\0';
    if (const std::size_t known = letters.find(letter); known != letters.npos) {
      result += meanings[known];
      return;
    }
    if (letter != 'u') fail("a backslash before something else than \"\\/bfnrtu");
    std::uint32_t code = hexadecimal();
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const std::uint32_t low = hexadecimal();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000) fail("half of a surrogate pair");
    append_utf8(result, code);
  }

  std::uint32_t hexadecimal() {
    constexpr std::string_view digits = "0123456789abcdef0123456789ABCDEF";
    std::uint32_t code = 0;
    for (int place = 0; place < 4; ++place, ++at_) {
      const std::size_t digit = at_ < text_.size() ? digits.find(text_[at_]) : digits.npos;
      if (digit == digits.npos) fail("four hexadecimal digits belong after \\u");
      code = code << 4 | static_cast<std::uint32_t>(digit % 16);
    }
    return code;
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }

  bool accept(char expected) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  void expect(char expected) {
    if (!accept(expected)) fail(fmt::format("{} instead of '{}'", next(), expected));
  }

  // What stands here, for an error.
  std::string next() const {
    if (at_ == text_.size()) return "the end of the header";
    const unsigned char letter = static_cast<unsigned char>(text_[at_]);
    return letter > 0x20 && letter < 0x7f ? fmt::format("'{}'", text_[at_])
                                          : fmt::format("the byte 0x{:02x}", letter);
  }

  [[noreturn]] void fail(std::string_view fault) const { fail_at(at_, fault); }
  [[noreturn]] void fail_tensor(std::string_view tensor, std::string_view fault) const {
    fail_at(at_, fmt::format("tensor {}: {}", shown(tensor), fault));
  }
  [[noreturn]] void fail_at(std::size_t at, std::string_view fault) const {
    throw std::runtime_error(fmt::format("safetensors: {}: byte {}: {}", file_, kLengthBytes + at, fault));
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  bool has_metadata_ = false;
};

// ---- What a header promises must be what the file has -------------------------------------------

void check_names(const Header& header, const std::string& file) {
  std::vector<std::string_view> names;
  for (const Entry& entry : header.entries) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    check_environment(false, "safetensors: {}: tensor {} stands there twice", file, shown(*twice));
}

// The shape, the type and the offsets of a tensor agree.
void check_size(const Entry& entry, const std::string& file) {
  const auto fail = [&](const std::string& fault) {
    check_environment(false, "safetensors: {}: tensor {}: {}", file, shown(entry.name), fault);
  };
  // Above any file, and small enough that no product of it with an element's size wraps.
  constexpr std::uint64_t most = std::uint64_t{1} << 58;
  // The sizes beside a 0 count, too: strides are their products.
  std::uint64_t count = 1, product = 1;
  for (const Index size : entry.shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<Index>(size, 1));
    if (__builtin_mul_overflow(product, factor, &product) || product > most)
      fail(fmt::format("{} is larger than any file", entry.shape));
    count *= static_cast<std::uint64_t>(size);
  }
  if (entry.begin > entry.end)
    fail(fmt::format("it ends at {}, before it begins at {}", entry.end, entry.begin));
  if (count * entry.type->bytes != entry.end - entry.begin)
    fail(fmt::format("{} of {} takes {} bytes, not the {} from {} to {}", entry.shape, entry.type->name,
                     count * entry.type->bytes, entry.end - entry.begin, entry.begin, entry.end));
}

// The tensors fill the data: no hole, nothing twice, and nothing behind the last.
void check_places(const Header& header, std::uint64_t data_bytes, const std::string& file) {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : header.entries) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
  std::uint64_t end = 0;
  for (const Entry* entry : sorted) {
    if (entry->begin != end)
      check_environment(false,
                        "safetensors: {}: tensor {}: it begins at byte {} of the data, where {} was due",
                        file, shown(entry->name), entry->begin, end);
    end = entry->end;
  }
  check_environment(end == data_bytes, "safetensors: {}: its tensors take {} bytes, and the data has {}",
                    file, end, data_bytes);
}

Header read_header(const InputFile& file, std::uint64_t& data_start) {
  const std::string& name = file.path().native();
  check_environment(file.size() >= kLengthBytes,
                    "safetensors: {}: {} bytes are too few for the header's length", name, file.size());
  std::uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  check_environment(length <= kMaxHeaderBytes,
                    "safetensors: {}: a header of {} bytes is above the limit of {}", name, length,
                    kMaxHeaderBytes);
  data_start = kLengthBytes + length;
  check_environment(data_start <= file.size(), "safetensors: {}: a header of {} bytes in a file of {}", name,
                    length, file.size());
  std::string text(length, '\0');
  file.read(kLengthBytes, text.data(), length);
  Header header = HeaderParser(text, name).parse();
  check_names(header, name);
  for (const Entry& entry : header.entries) check_size(entry, name);
  check_places(header, file.size() - data_start, name);
  return header;
}

// ---- Numbers ------------------------------------------------------------------------------------

float from_brain_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. All of them are numbers of f32.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t biased = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | biased << 23 | fraction << 13);
}

// Reads numbers of type From, and writes convert(number, its index) into `to`.
template <class From, class To, class F>
void read_converted(const InputFile& file, std::uint64_t offset, std::span<To> to, F&& convert) {
  constexpr std::size_t chunk = 1 << 16;
  std::vector<From> numbers(std::min(chunk, to.size()));
  for (std::size_t done = 0; done < to.size();) {
    const std::size_t size = std::min(chunk, to.size() - done);
    file.read(offset + done * sizeof(From), numbers.data(), size * sizeof(From));
    for (std::size_t i = 0; i < size; ++i) to[done + i] = convert(numbers[i], done + i);
    done += size;
  }
}

Tensor load(const InputFile& file, const Entry& entry, std::uint64_t offset) {
  Tensor tensor(entry.shape, entry.type->loaded);
  const auto integer = [&](std::int64_t number, std::size_t index, std::int64_t least, std::int64_t most) {
    if (number < least || number > most)
      check_environment(false, "safetensors: {}: tensor {}: element {} is {}, which {} cannot hold",
                        file.path().native(), shown(entry.name), index, number,
                        entry.type->kind == StoredType::BOOL ? "BOOL" : "i32");
    return static_cast<std::int32_t>(number);
  };
  using Limits = std::numeric_limits<std::int32_t>;
  switch (entry.type->kind) {
    case StoredType::F64:
    case StoredType::F32:
    case StoredType::I32:
      file.read(offset, tensor.view().data(), entry.end - entry.begin);
      break;
    case StoredType::F16:
      read_converted<std::uint16_t>(file, offset, tensor.data<float>(),
                                    [](auto bits, auto) { return from_half(bits); });
      break;
    case StoredType::BF16:
      read_converted<std::uint16_t>(file, offset, tensor.data<float>(),
                                    [](auto bits, auto) { return from_brain_float(bits); });
      break;
    case StoredType::I64:
      read_converted<std::int64_t>(file, offset, tensor.data<std::int32_t>(), [&](auto number, auto index) {
        return integer(number, index, Limits::min(), Limits::max());
      });
      break;
    case StoredType::U8:
      read_converted<std::uint8_t>(file, offset, tensor.data<std::int32_t>(),
                                   [](auto number, auto) { return std::int32_t{number}; });
      break;
    case StoredType::BOOL:
      read_converted<std::uint8_t>(file, offset, tensor.data<std::int32_t>(),
                                   [&](auto number, auto index) { return integer(number, index, 0, 1); });
      break;
  }
  return tensor;
}

// ---- Writing ------------------------------------------------------------------------------------

std::string_view stored_name(DType type) {
  return type == DType::f64 ? "F64" : type == DType::f32 ? "F32" : "I32";
}

std::uint64_t bytes_of(const ConstView& view) {
  return static_cast<std::uint64_t>(view.count() * size_of(view.dtype()));
}

void check_text(std::string_view text) {
  if (valid_utf8(text) != text.size()) check(false, "safetensors: {} is not UTF-8", shown(text));
}

void check_writable(std::span<const NamedView> sorted) {
  for (const NamedView& tensor : sorted) {
    check_text(tensor.name);
    check(tensor.name != kMetadata, "safetensors: no tensor can be called {}", kMetadata);
    if (tensor.view.dtype() == DType::dual)
      check(false, "safetensors: tensor {}: the format has no dual numbers", shown(tensor.name));
  }
  std::vector<std::string_view> names;
  for (const NamedView& tensor : sorted) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) check(false, "safetensors: two tensors are called {}", shown(*twice));
}

std::string header_text(std::span<const NamedView> tensors, const Metadata& metadata) {
  std::string text = fmt::format("{{{}:{{", json_string(kMetadata));
  for (const auto& [key, value] : metadata) {
    check_text(key);
    check_text(value);
    text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", json_string(key), json_string(value));
  }
  text += '}';
  std::uint64_t begin = 0;
  for (const auto& [name, view] : tensors) {
    const std::uint64_t end = begin + bytes_of(view);
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(name),
                        stored_name(view.dtype()), fmt::join(view.shape(), ","), begin, end);
    begin = end;
  }
  text += '}';
  // An array of numbers in memory starts at such a multiple, so a reader may map the file.
  const std::size_t unpadded = kLengthBytes + text.size(),
                    padded = (unpadded + kAlignment - 1) / kAlignment * kAlignment;
  text.append(padded - unpadded, ' ');
  check(text.size() <= kMaxHeaderBytes, "safetensors: a header of {} bytes is above the limit of {}",
        text.size(), kMaxHeaderBytes);
  return text;
}

}  // namespace

const Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &found->tensor;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  std::uint64_t data_start = 0;
  Header header = read_header(file, data_start);
  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  for (Entry& entry : header.entries) {
    Tensor tensor = load(file, entry, data_start + entry.begin);
    result.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  return result;
}

void write_safetensors(const std::filesystem::path& path, std::vector<NamedView> tensors, Metadata metadata) {
  // Wider types first, so that every tensor starts at a multiple of its elements' size.
  std::ranges::sort(tensors, {}, [](const NamedView& tensor) {
    const int narrower = tensor.view.dtype() == DType::f64 ? 0 : tensor.view.dtype() == DType::f32 ? 1 : 2;
    return std::pair(narrower, std::string_view(tensor.name));
  });
  check_writable(tensors);
  metadata.emplace("format", "pt");
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();

  OutputFile file(path);
  file.write(&length, kLengthBytes);
  file.write(header.data(), header.size());
  for (const NamedView& tensor : tensors) {
    const ConstView& view = tensor.view;
    if (view.is_contiguous())
      file.write(view.data(), bytes_of(view));
    else
      file.write(Tensor::copy_of(view).view().data(), bytes_of(view));
  }
  file.commit();
}

}  // namespace attune
