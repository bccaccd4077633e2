// cp.async: copies are only noted when they are issued, and land when the thread waits for their group. So a
// missing wait leaves what was there before, and a source that changes too early shows.
#pragma once
#include "kernels/emulate/block.h"

namespace strata::emulate {

void async_copy(void* to_shared, const void* from_global, int bytes, Site site);
void async_commit();
// Lands all committed groups but the newest `newest_left`.
void async_wait(int newest_left);

}  // namespace strata::emulate
