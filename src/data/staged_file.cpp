#include "data/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace strata::data {

StagedFile::StagedFile(const std::string& path) : path_(path), part_(path + ".part") {
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw InputError(concat("cannot write ", part_, ": ", std::strerror(errno)));
}

StagedFile::~StagedFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_.c_str());
}

void StagedFile::fail() const { throw Error(concat("cannot write ", part_, ": ", std::strerror(errno))); }

void StagedFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kBuffer = 1 << 20;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void StagedFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    done += std::size_t(n);
  }
  buffer_.clear();
}

void StagedFile::sync() {
  flush();
  if (::fsync(fd_) != 0) fail();
}

void StagedFile::commit() {
  sync();
  if (::rename(part_.c_str(), path_.c_str()) != 0) fail();
  ::close(fd_);
  fd_ = -1;
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace strata::data
