#include "train/throughput.h"

#include "train/dry_run.h"
#include "train/peaks.h"
#include "train/run_text.h"

namespace strata::train {
namespace {

constexpr std::int64_t kPeakRows = 256, kPeakSize = 1024;  // takes about a tenth of a second

}  // namespace

Throughput::Throughput(const RunConfig& config, int ranks)
    : per_token_(model_flops_per_token(config)), ranks_(ranks), measured_(!config.logging.peak_flops) {
  peak_ = config.logging.peak_flops ? *config.logging.peak_flops
                                    : gemm_peak(config.precision.dtype(), kPeakRows, kPeakSize);
}

std::optional<double> Throughput::share(double tokens_per_second) const {
  if (peak_ == 0) return {};
  return flops(tokens_per_second) / (peak_ * ranks_);
}

std::string Throughput::text() const {
  std::string text = format("%.4g MFLOP a token forward and backward", per_token_ / 1e6);
  if (peak_ > 0)
    text += format("; gemm peak %.1f GFLOP/s %s%s", peak_ / 1e9, ranks_ > 1 ? "a rank, " : "",
                   measured_ ? "measured" : "(logging.peak_flops)");
  return text;
}

}  // namespace strata::train
