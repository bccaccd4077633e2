#include "data/text_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace strata::data {
namespace {

constexpr std::size_t kPiece = 4 << 20, kLongestLine = 1 << 30;

int open_file(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw InputError(concat("cannot read ", file, ": ", std::strerror(errno)));
  return fd;
}

std::int64_t checked_size(const std::string& file) {
  if (std::filesystem::is_directory(file))
    throw InputError(concat("cannot read ", file, ": it is a folder; name its .txt and .jsonl files"));
  if (!file.ends_with(".txt") && !file.ends_with(".jsonl"))
    throw InputError(concat("cannot tell what ", file, " is: a name ends in .txt (one document) or .jsonl ",
                            "(one a line)"));
  const int fd = open_file(file);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  ::close(fd);
  if (!known) throw InputError(concat("cannot read ", file, ": its size is not known"));
  return status.st_size;
}

}  // namespace

TextInput::TextInput(std::vector<std::string> files, const Tokenizer& tokenizer)
    : files_(std::move(files)), tokenizer_(tokenizer) {
  for (const std::string& file : files_) bytes_ += checked_size(file);
}

TextInput::~TextInput() { close(); }

void TextInput::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

// Reads until `wanted` bytes are ahead or the file ends.
void TextInput::fill(std::size_t wanted) {
  std::size_t have = ahead_.size();
  ahead_.resize(std::max(have, wanted));
  while (have < wanted && !at_end_) {
    const ssize_t n = ::read(fd_, ahead_.data() + have, wanted - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(concat("cannot read ", files_[at_], ": ", std::strerror(errno)));
    at_end_ = n == 0;
    have += std::size_t(n);
  }
  ahead_.resize(have);
}

TextPiece TextInput::next_lines() {
  std::size_t end = std::string::npos;
  for (std::size_t wanted = kPiece; end == std::string::npos && !at_end_; wanted *= 2) {
    if (wanted > kLongestLine)
      throw InputError(concat(files_[at_], ":", line_, ": the line is longer than 1 GiB"));
    fill(wanted);
    end = ahead_.rfind('\n');
  }
  const std::size_t size = at_end_ ? ahead_.size() : end + 1;
  TextPiece piece{.text = ahead_.substr(0, size), .file = files_[at_], .first_line = line_, .is_jsonl = true};
  ahead_.erase(0, size);
  line_ += std::count(piece.text.begin(), piece.text.end(), '\n');
  return piece;
}

TextPiece TextInput::next_text() {
  std::size_t size = 0;
  for (std::size_t wanted = kPiece; size == 0 && !at_end_; wanted *= 2) {
    fill(wanted);
    size = tokenizer_.stable_prefix(ahead_);
  }
  if (at_end_) size = ahead_.size();
  TextPiece piece{.text = ahead_.substr(0, size), .file = files_[at_]};
  ahead_.erase(0, size);
  piece.ends_document = at_end_;
  piece.is_empty = piece.text.empty() && !has_given_;
  return piece;
}

std::optional<TextPiece> TextInput::next() {
  if (fd_ < 0) {
    if (at_ == files_.size()) return {};
    fd_ = open_file(files_[at_]);
    at_end_ = has_given_ = false;
    line_ = 1;
  }
  TextPiece piece = files_[at_].ends_with(".jsonl") ? next_lines() : next_text();
  has_given_ = true;
  if (at_end_) {  // all of it is given
    close();
    ++at_;
  }
  return piece;
}

}  // namespace strata::data
