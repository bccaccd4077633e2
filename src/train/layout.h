// The mesh that a configuration asks for.
#pragma once
#include "comm/mesh.h"
#include "train/config.h"

namespace strata::train {

// `ranks` in all: pipeline ranks times data-parallel ones. Throws InputError naming what would fit.
comm::MeshShape mesh_shape(const RunConfig& config, int ranks);

}  // namespace strata::train
