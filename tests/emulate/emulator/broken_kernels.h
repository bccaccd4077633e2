// Kernels that break a rule of the dialect, each in one way.
#pragma once
#include <cstddef>

#include "kernels/cuda/runtime.h"

namespace strata::testing {

using cuda::StreamHandle;

// y[i] = x[i + 1] around a block of n threads, through shared memory; without `barrier` nobody waits for the
// write.
void rotate(StreamHandle stream, const float* x, float* y, int n, bool barrier);
// y[0..31] = what warp 1 wrote, read by warp 0; both pass warp barriers in between, only `barrier` is a
// block's.
void read_other_warp(StreamHandle stream, float* y, bool barrier);
// y[i] = 2 x[(i + 1) % 32] within a warp, __syncwarp() only if asked for.
void rotate_in_warp(StreamHandle stream, const float* x, float* y, bool barrier);
// y [64] through cp.async; waits for the group only if asked for.
void fetch(StreamHandle stream, const float* x, float* y, bool wait);
// Copies x [4] once cp.async has been told where it is, but before it landed x is overwritten by -1.
void fetch_changing_source(StreamHandle stream, float* x, float* y);

// Threads 0 to 15 wait for the block, the others for their lanes.
void diverge(StreamHandle stream);
// Lanes 20 to 31 leave, the others name them in a mask.
void leave_early(StreamHandle stream);
// Two branches, a __syncthreads in each.
void wait_on_two_lines(StreamHandle stream);
// Two branches, a __syncwarp of all lanes in each.
void meet_on_two_lines(StreamHandle stream);
// Two branches, a block_sum in each.
void sum_on_two_lines(StreamHandle stream);
// Thread 5 leaves after the first of two barriers.
void leave_between_barriers(StreamHandle stream);
// Lane 3 shuffles with a mask that names lanes 0 to 2 only.
void name_others_only(StreamHandle stream);
// A block of 40 threads, all of which shuffle with the full mask.
void name_missing_lanes(StreamHandle stream);
// Lanes 0 to 15 shuffle among themselves, but read from lane 20.
void read_unnamed_lane(StreamHandle stream);

void use_memory_as_two_types(StreamHandle stream);
void use_more_than_launched(StreamHandle stream);
void fail_check_in_thread_7(StreamHandle stream);
void copy_to_odd_address(StreamHandle stream, const float* x);
void load_unaligned_pack(StreamHandle stream, const float* x);

// One block of `threads` threads with `shared_bytes`, a grid of `blocks`, that does nothing.
void launch_nothing(StreamHandle stream, unsigned blocks, unsigned threads, std::size_t shared_bytes);
// y[i] = 1 for i < n, whatever y's size.
void write_ones(StreamHandle stream, float* y, int n);
// Writes the element past the end of a shared array of 64.
void write_past_shared(StreamHandle stream);
// y [64] from 4 KiB arrays of each thread that live across barriers. A sound kernel, for the sanitizer.
void keep_local_arrays(StreamHandle stream, float* y);

}  // namespace strata::testing
