#include "checkpoint/disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const std::string& path, int error) {
  throw Error(concat("cannot ", what, " ", path, ": ", std::strerror(error)));
}

// Writes all of it; returns the error, or 0.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(std::size_t(n));
  }
  return 0;
}

}  // namespace

void Disk::call(std::string_view what, const std::string& path) {
  if (faults_.before_call) faults_.before_call(what, path);
  if (is_last_call()) ::kill(::getpid(), SIGKILL);
  ++calls_;
}

void Disk::make_folder(const std::string& path) {
  call("make", path);
  if (::mkdir(path.c_str(), 0777) != 0) fail("make", path, errno);
}

void Disk::rename(const std::string& from, const std::string& to) {
  call("rename", from);
  if (::rename(from.c_str(), to.c_str()) != 0) fail("rename", from, errno);
}

void Disk::sync_folder(const std::string& path) {
  call("sync", path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("sync", path, errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error) fail("sync", path, error);
}

void Disk::remove_file(const std::string& path) {
  call("remove", path);
  if (::unlink(path.c_str()) != 0) fail("remove", path, errno);
}

void Disk::remove_contents(const std::string& path) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    call("remove", entry.path().string());
    fs::remove_all(entry.path(), error);
    if (error) fail("remove", entry.path().string(), error.value());
  }
  if (error) fail("read", path, error.value());
}

void Disk::remove_folder(const std::string& path) {
  const fs::path folder(path);
  std::string hidden = path;
  if (!folder.filename().string().starts_with(".")) {
    hidden = (folder.parent_path() / concat(".", folder.filename().string(), ".gone-", ::getpid())).string();
    rename(path, hidden);
  }
  remove_contents(hidden);
  call("remove", hidden);
  if (::rmdir(hidden.c_str()) != 0) fail("remove", hidden, errno);
}

std::int64_t Disk::free_bytes(const std::string& folder) const {
  if (faults_.free_bytes >= 0) return faults_.free_bytes;
  struct statvfs s;
  if (::statvfs(folder.c_str(), &s) != 0) fail("ask for the free space of", folder, errno);
  return std::int64_t(s.f_bavail) * std::int64_t(s.f_frsize);
}

void Disk::flip_bit(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) fail("write", file, errno);
  const off_t middle = ::lseek(descriptor, 0, SEEK_END) / 2;
  unsigned char byte = 0;
  const bool was_read = ::pread(descriptor, &byte, 1, middle) == 1;
  byte ^= 1;
  const bool was_written = was_read && ::pwrite(descriptor, &byte, 1, middle) == 1;
  ::close(descriptor);
  if (!was_written) fail("write", file, EIO);
}

Disk::File::File(Disk& disk, const std::string& path) : disk_(disk), path_(path) {
  disk_.call("create", path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("write", path_, errno);
}

Disk::File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Disk::File::write(std::span<const std::byte> bytes) {
  if (disk_.is_last_call()) write_all(descriptor_, bytes.first(bytes.size() / 2));
  disk_.call("write", path_);
  const std::int64_t full = disk_.faults_.full_after_bytes;
  const std::int64_t room =
      full < 0 ? std::int64_t(bytes.size()) : std::max<std::int64_t>(0, full - disk_.written_);
  const std::size_t fits = std::min(bytes.size(), std::size_t(room));
  int error = write_all(descriptor_, bytes.first(fits));
  disk_.written_ += std::int64_t(fits);
  if (!error && fits < bytes.size()) error = ENOSPC;
  if (error) fail("write", path_, error);
}

void Disk::File::finish() {
  disk_.call("sync", path_);
  if (::fsync(descriptor_) != 0) fail("sync", path_, errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail("write", path_, errno);
}

InputFile::InputFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a named pipe must not block
  if (descriptor_ < 0)
    throw InputError(
        concat("cannot read ", path, ": ", errno == ENOENT ? "no such file" : std::strerror(errno)));
  struct stat s {};
  if (::fstat(descriptor_, &s) == 0 && S_ISREG(s.st_mode)) {
    size_ = s.st_size;
    return;
  }
  ::close(descriptor_);
  throw InputError(
      concat("cannot read ", path, ": it is ", S_ISDIR(s.st_mode) ? "a folder" : "no regular file"));
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::int64_t at, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(descriptor_, to.data(), to.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw InputError(concat("cannot read ", path_, ": ", std::strerror(errno)));
    if (n == 0) throw InputError(concat("cannot read ", path_, ": it became shorter while it was read"));
    at += n;
    to = to.subspan(std::size_t(n));
  }
}

}  // namespace strata::checkpoint
