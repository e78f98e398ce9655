/** Every scenario of clients/conformance.json, all at the same time. */

import { after, before, describe, it } from "node:test";
import { conformanceWorkers, LINES, runScenario, SAID } from "./conformance.js";

describe("conformance", { concurrency: true }, () => {
  const workers = conformanceWorkers();
  let running: Promise<unknown>;
  before(() => {
    running = Promise.all(workers.map((worker) => worker.run({ handleSignals: false })));
  });
  after(async () => {
    workers.forEach((worker) => worker.stop());
    await running;
    if (process.env["SHOW_LOGS"]) LINES.forEach((line) => console.log(JSON.stringify(line)));
  });
  for (const scenario of SAID.scenarios) it(scenario.name, () => runScenario(scenario));
});
