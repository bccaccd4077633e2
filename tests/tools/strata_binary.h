// Runs the binary as a user does, in a folder of the test's own.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace strata::test {

struct Outcome {
  int status = -1;  // exit status; -1: ended by a signal
  std::string out, err;
};

// A fresh folder, removed at the end. The binary runs in it, so that messages name files by relative paths.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;

  Outcome strata(const std::vector<std::string>& arguments) const;
  // The same, ended by SIGKILL if it still runs after so many microseconds.
  Outcome strata_killed(const std::vector<std::string>& arguments, int microseconds) const;
  // Another program, found in PATH; begun, and waited for, in two.
  Outcome command(const std::vector<std::string>& words) const { return wait_for(start(words)); }
  int start(const std::vector<std::string>& words) const;  // its process id; 0: none
  Outcome wait_for(int child) const;
  void write(const std::string& file, const std::string& text) const;
  std::string read(const std::string& file) const;
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  std::filesystem::path folder_;
};

// Info and debug lines without the time of day before them.
std::string without_times(const std::string& log);
// The path of configs/tiny.json: MSAR, two layers.
std::string tiny_config();
// `words` of a small vocabulary in a fixed irregular order, one space between.
std::string sample_text(int words);

}  // namespace strata::test
