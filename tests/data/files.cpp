#include "files.h"

namespace strata::test {

const std::string kFormats = STRATA_TEST_FIXTURES "/formats/";

}  // namespace strata::test
