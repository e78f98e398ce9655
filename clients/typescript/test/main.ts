/** All tests in one process, against one server; the last of them kills it. */

import "./units.test.js";
import "./conformance.test.js";
import "./client.test.js";
import "./worker.test.js";
