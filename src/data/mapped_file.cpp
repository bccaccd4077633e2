#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace strata::data {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Not blocking: a pipe without writer must be refused, not waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0)
    throw InputError(concat("cannot read ", path, ": ", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw InputError(concat("cannot read ", path, ": it is a directory"));
  if (!S_ISREG(status.st_mode)) throw InputError(concat("cannot read ", path, ": it is not a regular file"));
  if (status.st_size == 0) return;
  void* at = ::mmap(nullptr, std::size_t(status.st_size), PROT_READ, MAP_SHARED, file.fd, 0);
  if (at == MAP_FAILED) throw InputError(concat("cannot read ", path, ": ", std::strerror(errno)));
  data_ = static_cast<const std::byte*>(at);
  size_ = std::size_t(status.st_size);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace strata::data
