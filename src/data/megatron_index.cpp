#include "data/megatron_index.h"

#include <optional>

#include "base/error.h"

namespace strata::data {
namespace {

class IndexReader {
 public:
  IndexReader(std::span<const std::byte> bytes, std::int64_t bin_size, const std::string& index,
              const std::string& bin)
      : bytes_(bytes), size_(std::int64_t(bytes.size())), bin_size_(bin_size), index_(index), bin_(bin) {}

  MegatronIndex read() {
    header();
    sequences();
    documents();
    return found_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw InputError(concat(index_, " is not a sound Megatron index: ", parts...));
  }
  template <class T>
  T at(std::int64_t position) const {
    return load<T>(bytes_.data() + position);
  }

  ElementType type_of(int code) const {
    switch (code) {
      case 1:
        return ElementType::U8;
      case 2:
        return ElementType::I8;
      case 3:
        return ElementType::I16;
      case 4:
        return ElementType::I32;
      case 5:
        return ElementType::I64;
      case 8:
        return ElementType::U16;
      case 6:
      case 7:
        refuse("its type code ", code, " is a floating-point type; tokens are integers");
      default:
        refuse("its type code is ", code, ", allowed are 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)");
    }
  }

  void header() {
    const std::size_t magic = kMegatronMagic.size();
    if (bytes_.empty()) refuse("it is empty");
    if (bytes_.size() < magic || std::memcmp(bytes_.data(), kMegatronMagic.data(), magic) != 0)
      refuse("it does not begin with MMIDIDX");
    if (size_ < kMegatronHeader) refuse("it ends within its header, after ", size_, " of 34 bytes");
    if (const auto version = at<std::uint64_t>(9); version != 1)
      refuse("its version is ", version, ", known is 1");
    found_.type = type_of(at<std::uint8_t>(17));
    const auto sequences = at<std::uint64_t>(18), entries = at<std::uint64_t>(26);
    // Each count is compared with the room there is before it is multiplied.
    const std::uint64_t room = std::uint64_t(size_ - kMegatronHeader);
    if (sequences > room / 12) refuse("it says ", sequences, " sequences, but has only ", size_, " bytes");
    const std::uint64_t left = room - 12 * sequences;
    if (entries > left / 8)
      refuse("it says ", entries, " entries of documents, but has only ", size_, " bytes");
    if (entries < 1) refuse("it has no entries of documents; the first is 0");
    const std::uint64_t rest = left - 8 * entries;
    if (rest != 0 && rest != sequences)
      refuse("it has ", rest, " bytes after its last entry; none, or one mode for each of ", sequences,
             " sequences, are expected");
    found_.sequences = std::int64_t(sequences);
    found_.documents = std::int64_t(entries) - 1;
    found_.offsets_at = kMegatronHeader + 4 * found_.sequences;
    found_.documents_at = found_.offsets_at + 8 * found_.sequences;
  }

  void sequences() {
    const std::int64_t element = width(found_.type);
    std::int64_t expected = 0;  // never beyond bin_size_
    for (std::int64_t s = 0; s < found_.sequences; ++s) {
      const auto length = at<std::int32_t>(kMegatronHeader + 4 * s);
      const auto offset = at<std::int64_t>(found_.offsets_at + 8 * s);
      if (length < 0) refuse("sequence ", s, " has the length ", length);
      if (offset != expected)
        refuse("sequence ", s, " begins at byte ", offset, " of ", bin_,
               ", but the sequences before it end at ", expected);
      if (length > (bin_size_ - expected) / element)
        refuse("sequence ", s, " ends at byte ", expected + length * element, " of ", bin_,
               ", which has only ", bin_size_);
      expected += length * element;
    }
    if (expected != bin_size_)
      refuse(bin_, " has ", bin_size_, " bytes, but the sequences end at byte ", expected);
    found_.tokens = expected / element;
  }

  void documents() {
    std::int64_t before = 0;
    for (std::int64_t d = 0; d <= found_.documents; ++d) {
      const auto entry = at<std::int64_t>(found_.documents_at + 8 * d);
      if (d == 0 && entry != 0) refuse("its first document begins at sequence ", entry, ", not 0");
      if (entry < before || entry > found_.sequences)
        refuse("entry ", d, " of its documents is ", entry, "; allowed are ", before, " to ",
               found_.sequences);
      before = entry;
    }
    if (before != found_.sequences)
      refuse("its documents end at sequence ", before, ", but it has ", found_.sequences);
  }

  std::span<const std::byte> bytes_;
  std::int64_t size_, bin_size_;
  const std::string& index_;
  const std::string& bin_;
  MegatronIndex found_{};
};

}  // namespace

MegatronIndex read_megatron_index(std::span<const std::byte> bytes, std::int64_t bin_size,
                                  const std::string& index, const std::string& bin) {
  return IndexReader(bytes, bin_size, index, bin).read();
}

}  // namespace strata::data
