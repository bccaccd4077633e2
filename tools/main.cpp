// strata: runs the command that the command line names, turns errors into one sentence and an exit status:
// 0 done, 1 the run failed, 2 bad usage or bad input.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/launcher.h"

namespace strata::tools {
namespace {

int run_command(int argc, char** argv) {
  Arguments a;
  const std::string command = read_command_line(argc, argv, a);
  if (command.empty()) return 0;
  if (a.train.verbose) log::setup(log::Level::Debug);
  if (command == "train") return train(a.train);
  if (command == "trace") return trace(a.trace);
  if (command == "eval") return eval(a.eval);
  if (launched_rank() > 0) return 0;  // all others are one rank's work
  if (command == "config") return config(a.config);
  if (command == "verify-layout") return verify_layout(a.verify_layout);
  if (command == "plan") return plan(a.plan);
  if (command == "schedule") return schedule(a.schedule);
  if (command == "bench step") return bench_step(a.bench);
  if (command == "bench ops") return bench_ops(a.bench);
  if (command == "bench compare") return bench_compare(a.bench);
  if (command == "generate") return generate(a.generate);
  if (command == "checkpoint inspect") return inspect_checkpoint(a.checkpoint);
  if (command == "checkpoint verify") return verify_checkpoint(a.checkpoint);
  if (command == "checkpoint convert") return convert(a.convert);
  if (command == "prepare") return prepare(a.prepare);
  if (command == "plot") return plot(a.plot);
  throw Error(concat(command, ": not a command that runs"));
}

// Where standard input, output or error is closed, a file of the run would get its number, and the lines that
// are written there. Nothing can be written to what stands in for them.
void close_gaps() {
  int number = open("/dev/null", O_RDONLY);
  while (number >= 0 && number <= STDERR_FILENO) number = open("/dev/null", O_RDONLY);
  if (number >= 0) close(number);
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  strata::tools::close_gaps();
  strata::log::setup();
  try {
    const int status = strata::tools::run_command(argc, argv);
    if (!std::cout.flush() || std::fflush(stdout) != 0 || std::ferror(stdout))
      throw strata::Error("cannot write to standard output");
    return status;
  } catch (const strata::InputError& e) {
    std::cerr << "strata: " + strata::tools::speaker() + e.what() + '\n';
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr
        << "strata: " + strata::tools::speaker() +
               "out of memory; a smaller model, training.micro_batch_size or training.global_batch_size "
               "needs less\n";
    return 1;
  } catch (const std::exception& e) {
    std::cerr << "strata: " + strata::tools::speaker() + e.what() + '\n';
    return 1;
  }
}
