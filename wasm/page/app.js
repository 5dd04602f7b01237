// The page: one engine in a worker, and the sections that use it.

import { initBenchmark } from "./benchmark.js";
import { initChapter } from "./chapter.js";
import { initDevice } from "./device.js";
import { Engine } from "./engine.js";
import { initMultiply } from "./multiply.js";
import { initTune } from "./tune.js";

const engine = new Engine();
initDevice(engine);
initMultiply(engine);
initChapter(engine);
initBenchmark(engine);
initTune(engine);
engine.open();
