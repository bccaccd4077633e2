// The jobs that run on CUDA, one file a topic in this folder. Activations and their gradients are of the
// compute type or of its Acc, each as it likes; weights and statistics are Acc.
#pragma once
#include "kernels/cuda/stream.h"
#include "kernels/jobs.h"

namespace strata::kernels {

using cuda::CudaStream;

void run(CudaStream& stream, const RmsNormForward& job);
void run(CudaStream& stream, const RmsNormBackward& job);
void run(CudaStream& stream, const DepthAttendForward& job);
void run(CudaStream& stream, const DepthAttendBackward& job);
void run(CudaStream& stream, const DepthMergeForward& job);
void run(CudaStream& stream, const DepthMergeBackward& job);
void run(CudaStream& stream, const DepthWeights& job);

}  // namespace strata::kernels
