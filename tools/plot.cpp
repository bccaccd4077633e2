// Runs drawn from their metrics: one HTML file.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/error.h"
#include "data/staged_file.h"
#include "tools/commands.h"
#include "tools/plot_page.h"

namespace strata::tools {
namespace {

namespace fs = std::filesystem;

// The folder's name; of a file, that of the folder it lies in, unless it has a name of its own.
std::string short_name(const std::string& run) {
  fs::path path = fs::path(run).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  if (path.filename() == "metrics.jsonl") path = fs::absolute(path).parent_path();
  if (path.filename() == "." || path.filename() == "..") path = fs::canonical(path);
  return path.filename().string();
}

// Short names where they differ, else what the user wrote.
std::vector<std::string> names_of(const std::vector<std::string>& runs) {
  std::vector<std::string> names;
  for (const std::string& run : runs) names.push_back(short_name(run));
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (std::count(names.begin(), names.end(), short_name(runs[i])) > 1) return runs;
  return names;
}

// Only a page that was drawn before is replaced.
void check_output(const std::string& out) {
  if (out.empty()) throw InputError("--out: \"\" is no file's name");
  const fs::path folder = fs::path(out).parent_path();
  if (!folder.empty() && !fs::is_directory(folder))
    throw InputError(concat("--out: no folder ", folder.string()));
  if (!fs::exists(out)) return;
  if (!fs::is_regular_file(out)) throw InputError(concat("--out: ", out, " is no file that can be replaced"));
  std::ifstream file(out);
  std::string beginning(kPageBeginning.size(), '\0');
  file.read(beginning.data(), std::streamsize(beginning.size()));
  if (beginning != kPageBeginning)
    throw InputError(concat("--out: ", out, " is there already and no page that this command drew"));
}

}  // namespace

int plot(const PlotArguments& a) {
  std::vector<PlottedRun> runs;
  for (const std::string& run : a.runs) runs.push_back({"", train::read_metrics(run)});
  const std::vector<std::string> names = names_of(a.runs);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
  check_output(a.out);
  const std::string page = plot_page(runs);
  data::StagedFile file(a.out);
  file.write(std::as_bytes(std::span(page)));
  file.commit();
  std::printf("%s\n", a.out.c_str());
  return 0;
}

}  // namespace strata::tools
