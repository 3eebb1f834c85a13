#include "attune/lib/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "attune/lib/file.h"
#include "attune/lib/random.h"

using namespace attune;

namespace {

namespace fs = std::filesystem;

// A folder of its own for each test case.
class Folder {
 public:
  Folder() {
    static int number = 0;
    path_ = fs::temp_directory_path() / fmt::format("attune-safetensors-{}-{}", getpid(), number++);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string bytes_of_length(std::uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length);
}

// A file with that header, as it stands, and that data.
std::string with_header(std::string_view header, std::string_view data = "") {
  return bytes_of_length(header.size()).append(header).append(data);
}

template <class T>
std::string data_of(std::initializer_list<T> numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T));
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The error of reading a file of these bytes, without "safetensors: <path>: ".
std::string error_of(const Folder& folder, std::string_view bytes) {
  const fs::path path = folder / "bad.safetensors";
  write_bytes(path, bytes);
  try {
    read_safetensors(path);
  } catch (const std::runtime_error& error) {
    const std::string message = error.what(), start = fmt::format("safetensors: {}: ", path.native());
    CHECK(message.substr(0, start.size()) == start);
    return message.substr(std::min(start.size(), message.size()));
  }
  return "none";
}

SafetensorsFile load(const Folder& folder, std::string_view bytes) {
  write_bytes(folder / "file", bytes);
  return read_safetensors(folder / "file");
}

const std::string kGoodHeader = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
const std::string kTwoFloats = data_of<float>({1.5f, -2.0f});

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.view().data(), b.view().data(),
                     static_cast<std::size_t>(a.count() * size_of(a.dtype()))) == 0;
}

std::string entry(std::string_view name, std::string_view type, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, type, shape, offsets);
}

}  // namespace

TEST_CASE("B69: a file of another writer loads, its data aligned or not") {
  const Folder folder;
  CHECK(kGoodHeader.size() == 54);
  for (const std::string& header : {kGoodHeader, kGoodHeader + "  ", kGoodHeader + std::string(1000, ' ')}) {
    const SafetensorsFile file = load(folder, with_header(header, kTwoFloats));
    REQUIRE(file.tensors.size() == 1);
    CHECK(file.tensors[0].name == "t");
    CHECK(file.tensors[0].tensor.dtype() == f32);
    CHECK(file.tensors[0].tensor.shape() == Shape{2});
    CHECK(file.tensors[0].tensor.at({0}) == 1.5);
    CHECK(file.tensors[0].tensor.at({1}) == -2.0);
    CHECK(file.find("t") == &file.tensors[0].tensor);
    CHECK(file.find("u") == nullptr);
    CHECK(file.metadata.empty());
  }
  CHECK(load(folder, with_header("{}")).tensors.empty());
  CHECK(load(folder, with_header(R"({"__metadata__":{}})")).tensors.empty());
}

TEST_CASE("keys in any order, spaces between anything, names in the order of the header") {
  const Folder folder;
  const SafetensorsFile file =
      load(folder, with_header(R"({ "z" : { "data_offsets" : [ 4 , 8 ] ,
      "shape" : [ ] , "dtype" : "I32" } , "__metadata__" : { "format" : "pt", "a\tb" : "\u00e9\ud83d\ude00\/" },
      "a\"\\\n" : {"shape":[1,1],"dtype":"F32","data_offsets":[0,4]} } )",
                               data_of<float>({2.5f}) + data_of<std::int32_t>({-7})));
  REQUIRE(file.tensors.size() == 2);
  CHECK(file.tensors[0].name == "z");
  CHECK(file.tensors[0].tensor.rank() == 0);
  CHECK(file.tensors[0].tensor.item() == -7);
  CHECK(file.tensors[1].name == "a\"\\\n");
  CHECK(file.tensors[1].tensor.at({0, 0}) == 2.5);
  CHECK(file.metadata == Metadata{{"format", "pt"}, {"a\tb", "é😀/"}});
}

TEST_CASE("narrow types load as f32 and i32, each number as it is") {
  const Folder folder;
  const auto one = [&](std::string_view type, std::size_t count, const std::string& data) {
    const std::string header =
        "{" + entry("t", type, fmt::format("{}", count), fmt::format("0,{}", data.size())) + "}";
    return std::move(load(folder, with_header(header, data)).tensors[0].tensor);
  };
  const Tensor halves = one("F16", 10,
                            data_of<std::uint16_t>({0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff,
                                                    0x0400, 0x7c00, 0xfc00}));
  CHECK(halves.dtype() == f32);
  const double expected[] = {0, -0.0, 1, -2, 65504, 0x1p-24, 1023 * 0x1p-24, 0x1p-14, INFINITY, -INFINITY};
  for (Index i = 0; i < 10; ++i) {
    CHECK(halves.at({i}) == expected[i]);
    CHECK(std::signbit(halves.at({i})) == std::signbit(expected[i]));
  }
  CHECK(std::isnan(one("F16", 1, data_of<std::uint16_t>({0x7e00})).item()));

  const Tensor brain = one("BF16", 4, data_of<std::uint16_t>({0x3f80, 0xc049, 0x0001, 0xff80}));
  CHECK(brain.dtype() == f32);
  CHECK(brain.at({0}) == 1);
  CHECK(brain.at({1}) == -3.140625);
  CHECK(brain.at({2}) == 0x1p-133);
  CHECK(brain.at({3}) == -INFINITY);

  const Tensor longs = one("I64", 3, data_of<std::int64_t>({-2147483648ll, 2147483647ll, 5}));
  CHECK(longs.dtype() == i32);
  CHECK(longs.at({0}) == -2147483648.0);
  CHECK(longs.at({1}) == 2147483647.0);
  const Tensor bytes = one("U8", 3, data_of<std::uint8_t>({0, 128, 255}));
  CHECK(bytes.dtype() == i32);
  CHECK(bytes.at({2}) == 255);
  const Tensor bools = one("BOOL", 2, data_of<std::uint8_t>({0, 1}));
  CHECK(bools.dtype() == i32);
  CHECK(bools.at({1}) == 1);

  // Longer than what is converted at a time.
  std::string many(200'001 * 2, '\0');
  for (std::size_t i = 0; i < 200'001; ++i) many[2 * i + 1] = i % 2 ? '\x3c' : '\x40';
  const Tensor long_halves = one("F16", 200'001, many);
  for (Index i = 0; i < 200'001; i += 1111) CHECK(long_halves.at({i}) == (i % 2 ? 1 : 2));

  CHECK(error_of(folder, with_header("{" + entry("t", "I64", "2", "0,16") + "}",
                                     data_of<std::int64_t>({0, 2147483648}))) ==
        R"(tensor "t": element 1 is 2147483648, which i32 cannot hold)");
  CHECK(error_of(folder,
                 with_header("{" + entry("t", "BOOL", "2", "0,2") + "}", data_of<std::uint8_t>({0, 2}))) ==
        R"(tensor "t": element 1 is 2, which BOOL cannot hold)");
}

TEST_CASE("B67: a header's length is not trusted") {
  const Folder folder;
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const auto with_length = [&](std::uint64_t length) {
    return error_of(folder, bytes_of_length(length) + kGoodHeader + "  " + kTwoFloats);
  };
  CHECK(error_of(folder, "") == "0 bytes are too few for the header's length");
  CHECK(error_of(folder, "1234567") == "7 bytes are too few for the header's length");
  CHECK(error_of(folder, bytes_of_length(2)) == "a header of 2 bytes in a file of 8");
  CHECK(error_of(folder, bytes_of_length(0)) ==
        "byte 8: a header starts with '{', not with the end of the header");
  CHECK(with_length(0) == "byte 8: a header starts with '{', not with the end of the header");
  CHECK(with_length(most) == "a header of 18446744073709551615 bytes is above the limit of 100000000");
  CHECK(with_length(most - 3) == "a header of 18446744073709551612 bytes is above the limit of 100000000");
  CHECK(with_length(200'000'000) == "a header of 200000000 bytes is above the limit of 100000000");
  CHECK(with_length(100'000'000) == "a header of 100000000 bytes in a file of 72");
  CHECK(with_length(72 - 7) == "a header of 65 bytes in a file of 72");
  CHECK(with_length(72 - 8) == "byte 66: not UTF-8");
  CHECK(with_length(40) == "byte 48: a string without end");
}

TEST_CASE("B67: a header that is not one is refused, with the byte and the fault") {
  const Folder folder;
  struct Case {
    std::string header, error;
  };
  const std::string open = R"({"t":)";
  const Case cases[] = {
      {" {}", "byte 8: a header starts with '{', not with the byte 0x20"},
      {"\n{}", "byte 8: a header starts with '{', not with the byte 0x0a"},
      {"\xef\xbb\xbf{}", "byte 8: a header starts with '{', not with the byte 0xef"},
      {"[]", "byte 8: a header starts with '{', not with '['"},
      {"null", "byte 8: a header starts with '{', not with 'n'"},
      {"{", "byte 9: the end of the header instead of '\"'"},
      {"{,}", "byte 9: ',' instead of '\"'"},
      {"{'t'}", "byte 9: ''' instead of '\"'"},
      {"{}x", "byte 10: 'x' after the end of the header's object"},
      {"{} {}", "byte 11: '{' after the end of the header's object"},
      {std::string("{}\0", 3), "byte 10: the byte 0x00 after the end of the header's object"},
      {R"({"t")", "byte 12: the end of the header instead of ':'"},
      {R"({"t":1})", "byte 13: '1' instead of '{'"},
      {R"({"t":[]})", "byte 13: '[' instead of '{'"},
      {open + "{}}", R"(byte 15: tensor "t": it needs a dtype, a shape and data_offsets)"},
      {open + R"({"dtype":"F32","shape":[]}})",
       R"(byte 39: tensor "t": it needs a dtype, a shape and data_offsets)"},
      {open + R"({"dtype":"F32",})", "byte 28: '}' instead of '\"'"},
      {open + R"({"strides":[1]})", R"(byte 24: tensor "t": the key "strides" is unknown)"},
      {open + R"({"dtype":"F32","dtype":"F32"})",
       R"(byte 36: tensor "t": the key "dtype" stands here twice)"},
      {open + R"({"dtype":32})", "byte 22: '3' instead of '\"'"},
      {open + R"({"dtype":"F8_E5M2"})",
       R"(byte 31: tensor "t": the type "F8_E5M2" is not one of F64, F32, F16, BF16, I64, I32, U8, BOOL)"},
      {open + R"({"dtype":"f32"})",
       R"(byte 27: tensor "t": the type "f32" is not one of F64, F32, F16, BF16, I64, I32, U8, BOOL)"},
      {open + R"({"shape":2})", "byte 22: '2' instead of '['"},
      {open + R"({"shape":[-1]})", "byte 23: '-' instead of a number without sign"},
      {open + R"({"shape":[1.5]})", "byte 24: '.' instead of ']'"},
      {open + R"({"shape":[1e3]})", "byte 24: 'e' instead of ']'"},
      {open + R"({"shape":[01]})", "byte 25: a number with a leading zero"},
      {open + R"({"shape":[1,]})", "byte 25: ']' instead of a number without sign"},
      {open + R"({"shape":["1"]})", "byte 23: '\"' instead of a number without sign"},
      {open + R"({"shape":[18446744073709551616]})", "byte 42: a number of more than 64 bits"},
      {open + R"({"shape":[99999999999999999999999999]})", "byte 42: a number of more than 64 bits"},
      {open + R"({"shape":[9223372036854775808]})", R"(byte 42: tensor "t": a size of 9223372036854775808)"},
      {open + R"({"shape":[1,1,1,1,1,1,1]})", R"(byte 35: tensor "t": its rank is above the limit of 6)"},
      {open + R"({"data_offsets":[0]})", R"(byte 32: tensor "t": 1 data_offsets, not two)"},
      {open + R"({"data_offsets":[0,4,8]})", R"(byte 36: tensor "t": 3 data_offsets, not two)"},
      {R"({"__metadata__":[]})", "byte 24: '[' instead of '{'"},
      {R"({"__metadata__":{"a":1}})", "byte 29: '1' instead of '\"'"},
      {R"({"__metadata__":{"a":{}}})", "byte 29: '{' instead of '\"'"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", R"(byte 40: the key "a" of __metadata__ stands here twice)"},
      {R"({"__metadata__":{},"__metadata__":{}})", "byte 42: __metadata__ stands here twice"},
      {"{\"a\nb\"", "byte 11: a control character in a string"},
      {R"({"\x41")", R"(byte 12: a backslash before something else than "\/bfnrtu)"},
      {R"({"\u12g4")", "byte 14: four hexadecimal digits belong after \\u"},
      {R"({"\u12)", "byte 14: four hexadecimal digits belong after \\u"},
      {R"({"\ud800")", "byte 16: half of a surrogate pair"},
      {R"({"\udc00")", "byte 16: half of a surrogate pair"},
      {R"({"\ud800\u0041")", "byte 22: half of a surrogate pair"},
      {"{\"\xff\"", "byte 10: not UTF-8"},
      {"{\"\xc0\xaf\"", "byte 10: not UTF-8"},
      {"{\"\xe0\x80\x80\"", "byte 10: not UTF-8"},
      {"{\"\xed\xa0\x80\"", "byte 10: not UTF-8"},
      {"{\"\xf4\x90\x80\x80\"", "byte 10: not UTF-8"},
      {"{\"\xe2\x82", "byte 10: not UTF-8"},
      {open + std::string(10'000, '['), "byte 13: '[' instead of '{'"},
      {open + R"({"shape":)" + std::string(10'000, '['), "byte 23: '[' instead of a number without sign"},
      {std::string(10'000, '{'), "byte 9: '{' instead of '\"'"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.header.substr(0, 60));
    CHECK(error_of(folder, with_header(bad.header)) == bad.error);
  }
}

TEST_CASE("tensors must fill the data, without a hole, an overlap or a rest") {
  const Folder folder;
  const auto error = [&](std::initializer_list<std::string> entries, std::size_t data_bytes) {
    return error_of(
        folder, with_header(fmt::format("{{{}}}", fmt::join(entries, ",")), std::string(data_bytes, '\0')));
  };
  const std::string t = entry("t", "F32", "2", "0,8");
  CHECK(error({t}, 8) == "none");
  CHECK(error({t}, 9) == "its tensors take 8 bytes, and the data has 9");
  CHECK(error({t}, 7) == "its tensors take 8 bytes, and the data has 7");
  CHECK(error({}, 1) == "its tensors take 0 bytes, and the data has 1");
  CHECK(error({t, entry("u", "F32", "1", "8,12")}, 12) == "none");
  CHECK(error({entry("u", "F32", "1", "8,12"), t}, 12) == "none");
  CHECK(error({t, entry("u", "F32", "1", "12,16")}, 16) ==
        R"(tensor "u": it begins at byte 12 of the data, where 8 was due)");
  CHECK(error({t, entry("u", "F32", "1", "4,8")}, 8) ==
        R"(tensor "u": it begins at byte 4 of the data, where 8 was due)");
  CHECK(error({entry("t", "F32", "1", "4,8")}, 8) ==
        R"(tensor "t": it begins at byte 4 of the data, where 0 was due)");
  CHECK(error({t, entry("u", "F32", "2", "0,8")}, 8) ==
        R"(tensor "u": it begins at byte 0 of the data, where 8 was due)");
  CHECK(error({t, t}, 8) == R"(tensor "t" stands there twice)");
  CHECK(error({entry("t", "F32", "2", "8,0")}, 8) == R"(tensor "t": it ends at 0, before it begins at 8)");
  CHECK(error({entry("t", "F32", "3", "0,8")}, 8) ==
        R"(tensor "t": [3] of F32 takes 12 bytes, not the 8 from 0 to 8)");
  CHECK(error({entry("t", "F64", "2,1", "0,8")}, 8) ==
        R"(tensor "t": [2, 1] of F64 takes 16 bytes, not the 8 from 0 to 8)");
  CHECK(error({entry("t", "F32", "4294967296,4294967296", "0,8")}, 8) ==
        R"(tensor "t": [4294967296, 4294967296] is larger than any file)");
  CHECK(error({entry("t", "F32", "4611686018427387904", "0,0")}, 0) ==
        R"(tensor "t": [4611686018427387904] is larger than any file)");
  CHECK(error({entry("t", "F32", "4611686018427387906", "0,8")}, 8) ==
        R"(tensor "t": [4611686018427387906] is larger than any file)");
  CHECK(error({entry("t", "F32", "0,4611686018427387904,4611686018427387904", "0,0")}, 0) ==
        R"(tensor "t": [0, 4611686018427387904, 4611686018427387904] is larger than any file)");
  CHECK(error({entry("t", "F32", "2", "18446744073709551608,0")}, 8) ==
        R"(tensor "t": it ends at 0, before it begins at 18446744073709551608)");
  CHECK(error({entry("t", "F32", "1000000000000", "0,4000000000000")}, 8) ==
        "its tensors take 4000000000000 bytes, and the data has 8");
  // Ten tensors on the same bytes: small as a file, ten times as large in memory.
  std::vector<std::string> attack;
  for (int i = 0; i < 10; ++i) attack.push_back(entry(fmt::format("t{}", i), "F32", "1000", "0,4000"));
  CHECK(
      error_of(folder, with_header(fmt::format("{{{}}}", fmt::join(attack, ",")), std::string(4000, '\0'))) ==
      R"(tensor "t1": it begins at byte 0 of the data, where 4000 was due)");
}

TEST_CASE("a message shows a long name's beginning, up to a whole character") {
  const Folder folder;
  const std::string beginning(79, 'n'), name = beginning + "\u00e9" + std::string(1000, 'n');
  CHECK(error_of(folder, with_header("{" + entry(name, "F32", "2", "4,12") + "}", std::string(12, '\0'))) ==
        "tensor \"" + beginning + "\"...: it begins at byte 4 of the data, where 0 was due");
}

TEST_CASE("B67: a refusal is quick and takes no memory") {
  const Folder folder;
  const std::string files[] = {
      bytes_of_length(99'999'999) + kGoodHeader,
      with_header("{" + entry("t", "F32", "1000000000000", "0,4000000000000") + "}", "12345678"),
      with_header("{" + entry("t", "F32", "2", "0,8") + "}", std::string(1 << 20, 'x')),
      with_header(std::string(10'000, '[')),
  };
  for (const std::string& bytes : files) {
    const MemoryUse before = memory_use();
    const auto start = std::chrono::steady_clock::now();
    CHECK(error_of(folder, bytes) != "none");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100));
    CHECK(memory_use().allocations == before.allocations);
  }
}

TEST_CASE("B70: every truncation of a good file is refused") {
  const Folder folder;
  Tensor first = tensor({{1, 2}, {3, 4}}), second = tensor({5, 6, 7}, i32);
  write_safetensors(folder / "good", {{"first", first}, {"second", second}}, {{"step", "17"}});
  const std::string good = read_bytes(folder / "good");
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(folder, good.substr(0, size)) != "none");
  }
}

TEST_CASE("a flipped bit of the header is refused, or changes nothing that counts") {
  const Folder folder;
  const Tensor expected = tensor({1.5, -2});
  const std::string good = with_header(kGoodHeader + "  ", kTwoFloats);
  int loads = 0;
  for (std::size_t bit = 0; bit < 8 * (good.size() - kTwoFloats.size()); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    CAPTURE(bit);
    write_bytes(folder / "bad", bad);
    try {
      const SafetensorsFile file = read_safetensors(folder / "bad");
      ++loads;
      REQUIRE(file.tensors.size() == 1);
      const Tensor& loaded = file.tensors[0].tensor;
      // Only the name may differ: a header has no checksum.
      CHECK((same_bits(loaded, expected) || file.tensors[0].name != "t"));
      CHECK(loaded.count() * size_of(loaded.dtype()) == 8);
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()).find((folder / "bad").native()) != std::string::npos);
    }
  }
  CHECK(loads <= 8);
}

TEST_CASE("what was written is read again, bit for bit") {
  const Folder folder;
  Tensor wide(Shape{3, 4, 5}, f64), narrow(Shape{7}), ids = tensor({-2147483648.0, 0, 2147483647}, i32);
  Rng rng(1);
  fill_normal(wide, rng);
  fill_normal(narrow, rng);
  narrow.set({0}, NAN);
  narrow.set({1}, -INFINITY);
  narrow.set({2}, -0.0);
  narrow.set({3}, 1e-45);
  const Tensor scalar = tensor(2.5), none(Shape{0, 3}), deep = full(Shape{1, 2, 1, 2, 1, 2}, 7, f64);
  const std::string odd = "\"quoted\" \\ /\b\f\n\r\t\x01 é 日本 😀";
  write_safetensors(folder / "file",
                    {{"wide", wide},
                     {"narrow", narrow},
                     {"ids", ids},
                     {"scalar", scalar},
                     {"none", none},
                     {"deep", deep},
                     {odd, scalar},
                     {"", scalar}},
                    {{odd, odd}, {"step", "3"}});
  const SafetensorsFile file = read_safetensors(folder / "file");
  CHECK(file.tensors.size() == 8);
  REQUIRE(file.find("wide"));
  CHECK(same_bits(*file.find("wide"), wide));
  CHECK(same_bits(*file.find("narrow"), narrow));
  CHECK(same_bits(*file.find("ids"), ids));
  CHECK(same_bits(*file.find("scalar"), scalar));
  CHECK(file.find("none")->shape() == Shape{0, 3});
  CHECK(same_bits(*file.find("deep"), deep));
  REQUIRE(file.find(odd));
  CHECK(same_bits(*file.find(odd), scalar));
  CHECK(file.find(""));
  CHECK(file.metadata == Metadata{{odd, odd}, {"step", "3"}, {"format", "pt"}});

  write_safetensors(folder / "empty", {}, {{"format", "mlx"}});
  CHECK(read_safetensors(folder / "empty").tensors.empty());
  CHECK(read_safetensors(folder / "empty").metadata == Metadata{{"format", "mlx"}});
}

TEST_CASE("B69: the bytes of a written file are those of the format") {
  const Folder folder;
  const Tensor b = tensor({1, 2}, i32), a = tensor(3, i32), z = tensor(4, f64), y = tensor({5});
  write_safetensors(folder / "file", {{"b", b}, {"a", a}, {"z", z}, {"y", y}});
  const std::string bytes = read_bytes(folder / "file");
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + entry("z", "F64", "", "0,8") + "," +
                             entry("y", "F32", "1", "8,12") + "," + entry("a", "I32", "", "12,16") + "," +
                             entry("b", "I32", "2", "16,24") + "}";
  const std::size_t data_start = (8 + header.size() + 63) / 64 * 64;
  CHECK(bytes.substr(0, 8) == bytes_of_length(data_start - 8));
  CHECK(bytes.substr(8, header.size()) == header);
  CHECK(bytes.substr(8 + header.size(), data_start - 8 - header.size()) ==
        std::string(data_start - 8 - header.size(), ' '));
  CHECK(bytes.substr(data_start) ==
        data_of<double>({4}) + data_of<float>({5}) + data_of<std::int32_t>({3, 1, 2}));
}

TEST_CASE("B69: views are written as what they show") {
  const Folder folder;
  const Tensor w = tensor({{1, 2, 3}, {4, 5, 6}}), pair = tensor({1, 2});
  write_safetensors(folder / "file", {{"transposed", w.view().t()},
                                      {"expanded", pair.view().expand({4, 2})},
                                      {"column", w.view().slice(1, 1, 2)},
                                      {"row", w.view().select(0, 1)}});
  const SafetensorsFile file = read_safetensors(folder / "file");
  CHECK(same_bits(*file.find("transposed"), tensor({{1, 4}, {2, 5}, {3, 6}})));
  CHECK(same_bits(*file.find("expanded"), tensor({{1, 2}, {1, 2}, {1, 2}, {1, 2}})));
  CHECK(same_bits(*file.find("column"), tensor({{2}, {5}})));
  CHECK(same_bits(*file.find("row"), tensor({4, 5, 6})));
}

TEST_CASE("what the format cannot say is refused before anything is written") {
  const Folder folder;
  const fs::path path = folder / "file";
  const Tensor t = tensor(1), both = tensor(1, DType::dual);
  const auto write = [&](std::vector<NamedView> tensors, Metadata metadata = {}) {
    write_safetensors(path, std::move(tensors), std::move(metadata));
  };
  CHECK_THROWS_WITH_AS(write({{"d", both}}), R"(safetensors: tensor "d": the format has no dual numbers)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(write({{"t", t}, {"u", t}, {"t", t}}), R"(safetensors: two tensors are called "t")",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(write({{"__metadata__", t}}), "safetensors: no tensor can be called __metadata__",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(write({{"a\xff", t}}), "safetensors: \"a\xff\" is not UTF-8", std::invalid_argument);
  CHECK_THROWS_AS(write({{"a", t}}, {{"k", "\xc3"}}), std::invalid_argument);
  CHECK(folder.files() == 0);
}

TEST_CASE("reading what is no file is an error that names it") {
  const Folder folder;
  const std::string missing = (folder / "missing").native(), self = folder.path().native();
  CHECK_THROWS_WITH_AS(read_safetensors(missing),
                       fmt::format("file: {} cannot be opened: No such file or directory", missing).c_str(),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(read_safetensors(self), fmt::format("file: {} is a folder", self).c_str(),
                       std::runtime_error);
  const fs::path pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_safetensors(pipe),
                       fmt::format("file: {} is no regular file", pipe.native()).c_str(), std::runtime_error);
  CHECK_THROWS_AS(read_safetensors("/dev/zero"), std::runtime_error);
}

TEST_CASE("B70: a failed write leaves the old file, and nothing else") {
  const Folder folder;
  const fs::path path = folder / "file";
  const Tensor old = tensor({1, 2, 3}), large(Shape{100'000});
  write_safetensors(path, {{"t", old}});
  const std::string before = read_bytes(path);

  // A disk without room, as far as this process can tell.
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = 10'000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_safetensors(path, {{"t", large}});
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  CHECK(message == fmt::format("file: {} cannot be written: File too large", path.native()));
  CHECK(read_bytes(path) == before);
  CHECK(folder.files() == 1);

  const std::string nowhere = (folder / "no" / "file").native();
  CHECK_THROWS_WITH_AS(write_safetensors(nowhere, {{"t", old}}),
                       fmt::format("file: {} cannot be written: No such file or directory", nowhere).c_str(),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(write_safetensors(folder.path(), {{"t", old}}),
                       fmt::format("file: {} is a folder", folder.path().native()).c_str(),
                       std::runtime_error);
  CHECK(folder.files() == 1);

  write_safetensors(path, {{"t", large}});
  CHECK(read_safetensors(path).find("t")->count() == 100'000);
  CHECK(folder.files() == 1);
}

TEST_CASE("B70: what a writer that died left behind is removed by the next, and nothing else is") {
  const Folder folder;
  const fs::path path = folder / "file";
  write_bytes(fmt::format("{}.{}-0.tmp", path.native(), getpid()), "half a file");
  write_bytes(fmt::format("{}.1-12.tmp", path.native()), "half a file");
  const char* const others[] = {"file.1-2", "file.a-2.tmp", "file.12.tmp", "file.-1.tmp", "other.1-2.tmp"};
  for (const char* other : others) write_bytes(folder / other, "somebody's");
  const Tensor t = tensor(1);
  write_safetensors(path, {{"t", t}});
  CHECK(read_safetensors(path).find("t")->item() == 1);
  CHECK(folder.files() == 1 + std::size(others));
}

TEST_CASE("B70: what a living writer writes is no leftover") {
  const Folder folder;
  const fs::path path = folder / "file";
  OutputFile first(path);
  first.write("first", 5);
  OutputFile second(path);
  second.write("second", 6);
  CHECK(folder.files() == 2);
  first.commit();
  CHECK(read_bytes(path) == "first");
  second.commit();
  CHECK(read_bytes(path) == "second");
  CHECK(folder.files() == 1);
  { OutputFile never(path); }
  CHECK(folder.files() == 1);
}

TEST_CASE("B70: killing a writer leaves a whole file") {
  const Folder folder;
  const fs::path path = folder / "file";
  const Tensor numbers = full(Shape{20'000}, 3);
  write_safetensors(path, {{"t", numbers}});
  Rng rng(1);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (;;) {
        try {
          write_safetensors(path, {{"t", numbers}, {"u", numbers}});
        } catch (...) {
          _exit(1);
        }
      }
    }
    usleep(static_cast<useconds_t>(500 + rng.below(5000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(same_bits(*read_safetensors(path).find("t"), numbers));
  }
  write_safetensors(path, {{"t", numbers}});
  CHECK(folder.files() == 1);
}

TEST_CASE("tensors of no elements are loaded wherever they stand") {
  const Folder folder;
  const std::string header = fmt::format("{{{},{},{}}}", entry("a", "F32", "0,4", "0,0"),
                                         entry("b", "F32", "1", "0,4"), entry("c", "I64", "0", "4,4"));
  const SafetensorsFile file = load(folder, with_header(header, data_of<float>({9})));
  CHECK(file.find("a")->shape() == Shape{0, 4});
  CHECK(file.find("b")->at({0}) == 9);
  CHECK(file.find("c")->dtype() == i32);
  CHECK(
      error_of(folder, with_header("{" + entry("a", "F32", "0", "4,4") + "," + entry("b", "F32", "1", "0,4") +
                                       "," + entry("c", "F32", "0", "2,2") + "}",
                                   data_of<float>({9}))) != "none");
}
