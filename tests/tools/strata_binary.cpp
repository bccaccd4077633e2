#include "strata_binary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace strata::test {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << "cannot read " << file;
  std::ostringstream bytes;
  if (stream.peek() != EOF) bytes << stream.rdbuf();
  return bytes.str();
}

std::vector<std::string> with_binary(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{STRATA_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

}  // namespace

Workplace::Workplace() {
  std::string name = (std::filesystem::temp_directory_path() / "strata_test_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no folder to work in");
  folder_ = name;
}

Workplace::~Workplace() { std::filesystem::remove_all(folder_); }

Outcome Workplace::strata(const std::vector<std::string>& arguments) const {
  return command(with_binary(arguments));
}

Outcome Workplace::strata_killed(const std::vector<std::string>& arguments, int microseconds) const {
  const int child = start(with_binary(arguments));
  if (child == 0) return {};
  usleep(useconds_t(microseconds));
  kill(child, SIGKILL);
  return wait_for(child);
}

int Workplace::start(const std::vector<std::string>& words) const {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.data()));
  argv.push_back(nullptr);

  const std::string out = path(".out"), err = path(".err");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder_.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << "cannot start " << words[0];
  return failure == 0 ? child : 0;
}

Outcome Workplace::wait_for(int child) const {
  int state = 0;
  if (child == 0 || waitpid(child, &state, 0) != child) return {};
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, content(path(".out")), content(path(".err"))};
}

void Workplace::write(const std::string& file, const std::string& text) const {
  std::ofstream(path(file), std::ios::binary) << text;
}

std::string Workplace::read(const std::string& file) const { return content(path(file)); }

std::string without_times(const std::string& log) {
  constexpr std::size_t kTime = 9;  // "hh:mm:ss "
  std::istringstream lines(log);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += line.substr(std::min(kTime, line.size())) + "\n";
  return out;
}

std::string tiny_config() { return STRATA_SOURCE_DIR "/configs/tiny.json"; }

std::string sample_text(int words) {
  const std::vector<std::string> vocabulary{"the", "cat",   "sat",  "on",  "a",
                                            "mat", "while", "dogs", "ran", "uphill"};
  std::string text;
  unsigned state = 12345;
  for (int i = 0; i < words; ++i) {
    state = state * 1103515245u + 12345u;
    text += vocabulary[(state >> 16) % vocabulary.size()] + " ";
  }
  return text;
}

}  // namespace strata::test
