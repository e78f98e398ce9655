/** The client's verbs, and what it does when something is in the way. */

import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import {
  ApiError,
  Client,
  Invalid,
  NotAllowed,
  NotFound,
  type StreamEvent,
  TooMany,
  Unauthorized,
  Unavailable,
  UnexpectedAnswer,
} from "@headway/client";
import { Proxy } from "./proxy.js";
import { newClient } from "./served.js";

const LATER = { delay: "1h" };

describe("client", () => {
  const client = newClient();
  const proxy = new Proxy();
  let behind: Client;
  before(async () => {
    behind = newClient({ url: (await proxy.start()).address, timeout: 30, retries: 2 });
  });
  beforeEach(() => {
    proxy.seen.length = 0;
    proxy.fate = () => "forward";
  });
  after(() => proxy.close());

  it("a time is a Date, too, and what is not allowed says so", async () => {
    const at = new Date(Date.now() + 7_200_000);
    const { id } = await client.enqueue("play", {}, LATER);
    const later = await client.reschedule(id, { scheduled_for: at });
    assert.equal(Date.parse(later.scheduled_for ?? ""), at.getTime());
    await assert.rejects(client.fork(id), NotAllowed);
    await assert.rejects(client.delete(id), NotAllowed); // an admin's
    assert.match((await client.why(id)).join(), /scheduled|until/);
  });

  it("a list is a page, or at most so many, or all of them", async () => {
    const correlation_id = crypto.randomUUID();
    const made = await client.enqueueMany(
      [1, 2, 3, 4, 5].map((n) => ({ kind: "play", payload: { n }, correlation_id, ...LATER })),
    );
    const page = await client.list({ correlation_id, limit: 2, order: "oldest" });
    assert.deepEqual(
      page.items.map((job) => job.payload),
      [{ n: 1 }, { n: 2 }],
    );
    assert.ok(page.next_cursor);
    const all = crypto.randomUUID();
    await client.enqueueMany(Array(205).fill({ kind: "play_never", correlation_id: all }));
    for (const [limit, sizes] of [
      [203, [200, 3]],
      [2, [2]],
    ] as const) {
      const found = [];
      for await (const each of client.list({ correlation_id: all, limit }).pages()) found.push(each.items.length);
      assert.deepEqual(found, sizes);
    }
    let count = 0;
    for await (const _ of client.list({ correlation_id: all })) count += 1;
    assert.equal(count, 205);
    const ids = [];
    for await (const job of client.list({ correlation_id, limit: 5, status: ["scheduled", "queued"] }))
      ids.unshift(job.id);
    assert.deepEqual(
      ids,
      made.map((job) => job.id),
    );
    await assert.rejects(async () => await client.list({ limit: 0 }), Invalid);
  });

  it("a lost answer creates one job", async () => {
    proxy.fate = (_, turn) => (turn === 1 ? "lose" : "forward");
    const correlation_id = crypto.randomUUID();
    const made = await behind.enqueue("play", {}, { correlation_id, ...LATER });
    const keys = proxy.seen.map((each) => each.headers["idempotency-key"]);
    assert.equal(keys.length, 2);
    assert.equal(new Set(keys).size, 1);
    assert.deepEqual(
      (await client.list({ correlation_id })).items.map((job) => job.id),
      [made.id],
    );
  });

  it("a server that is busy is asked again, for a retry with the same key", async () => {
    const { id } = await client.enqueue("play", {}, LATER);
    const away = {
      status: 503,
      headers: { "Retry-After": "0" },
      body: '{"code": "StoreUnavailable", "detail": "away"}',
    };
    proxy.fate = (_, turn) => (turn === 1 ? away : turn === 2 ? { status: 502, body: "<html>" } : "forward");
    assert.equal((await behind.get(id)).id, id);
    assert.equal(proxy.seen.length, 3);
    proxy.fate = () => away;
    await assert.rejects(
      behind.retry(id),
      (error) => error instanceof ApiError && error.status === 503 && error.detail === "away",
    );
    const retries = proxy.of("/retry").map((each) => each.headers["idempotency-key"]);
    assert.deepEqual([retries.length, new Set(retries).size], [3, 1]);
    proxy.fate = () => ({
      status: 429,
      headers: { "Retry-After": "0" },
      body: '{"code": "QueueFull", "detail": "full", "fix": "wait"}',
    });
    await assert.rejects(
      behind.run(id),
      (error) => error instanceof TooMany && error.message === "full; wait" && error.code === "QueueFull",
    );
    assert.equal(proxy.of("/run").length, 3);
  });

  it("an answer that is not as promised is refused, and no redirect is followed", async () => {
    proxy.fate = () => ({ status: 200, body: '{"id": 7}' });
    await assert.rejects(behind.get("x"), UnexpectedAnswer);
    proxy.fate = () => ({ status: 200, body: "<html>" });
    await assert.rejects(behind.get("x"), /not JSON/);
    proxy.fate = () => ({ status: 302, headers: { Location: "http://127.0.0.1:1/" } });
    await assert.rejects(behind.get("x"), (error) => error instanceof UnexpectedAnswer && error.status === 302);
    await assert.rejects(newClient({ key: "hw_live_wrong" }).get("x"), Unauthorized);
  });

  it("the refusal of another program is not the API's", async () => {
    const other: [string, string][] = [
      ["text/html", "<html>"],
      ["application/json", '{"code": "NotFound"}'],
      ["application/problem+json", '{"title": "of another API"}'],
      ["application/problem+json", '{"code": 7}'],
      ["application/problem+json", "<html>"],
    ];
    const hasty = newClient({ url: proxy.address, retries: 0 });
    for (const status of [400, 401, 403, 404, 409, 413, 422, 429, 500]) {
      for (const [type, body] of other) {
        proxy.fate = () => ({ status, headers: { "Content-Type": type }, body });
        for (const ask of [() => hasty.get("x"), () => hasty.enqueue("x"), () => hasty.stream("x").next()]) {
          await assert.rejects(async () => ask(), {
            name: "UnexpectedAnswer",
            status,
            message: new RegExp(`${status} with ${type.replace("+", "\\+")}`),
          });
        }
      }
    }
    const type = { "Content-Type": "Application/Problem+JSON; charset=utf-8" };
    proxy.fate = () => ({ status: 404, headers: type, body: '{"code": "NotFound"}' });
    await assert.rejects(hasty.get("x"), NotFound);
  });

  it("a server or database that is away is Unavailable, whoever says so", async () => {
    const hasty = newClient({ url: proxy.address, retries: 0 });
    for (const [status, type, body] of [
      [503, "application/problem+json", '{"code": "StoreUnavailable", "detail": "away"}'],
      [502, "text/html", "<html>"],
      [504, "text/html", ""],
    ] as const) {
      proxy.fate = () => ({ status, headers: { "Content-Type": type }, body });
      await assert.rejects(
        hasty.get("x"),
        (error) => error instanceof Unavailable && error instanceof ApiError && error.status === status,
      );
    }
    assert.ok(!(new Invalid(422, {}) instanceof Unavailable) && new Unavailable("away") instanceof Unavailable);
    assert.ok(!(new Unavailable("away") instanceof ApiError));
  });

  it("a request has an end: a timeout, or a signal", async () => {
    proxy.fate = () => "hang";
    const hasty = newClient({ url: proxy.address, timeout: "50ms", retries: 0 });
    await assert.rejects(
      hasty.get("x"),
      (error) => error instanceof Unavailable && /no answer within 0.05 s/.test(error.message),
    );
    const abort = new AbortController();
    const waiting = behind.result("x", { wait: 30 }, { signal: abort.signal });
    setImmediate(() => abort.abort(new Error("enough")));
    await assert.rejects(waiting, /^Error: enough$/);
    await assert.rejects(client.get("x", { signal: abort.signal }), /enough/);
    await assert.rejects(async () => client.stream("x", {}, { signal: abort.signal }).next(), /enough/);
  });

  it("a stream resumes where it was cut, and ends with the job", async () => {
    const { id } = await client.enqueue("play", {}, LATER);
    proxy.fate = (_, turn) => (turn === 1 ? "cut" : "forward");
    const found: StreamEvent[] = [];
    for await (const each of behind.stream(id)) {
      found.push(each);
      if (found.length === 2) await client.cancel(id);
    }
    assert.deepEqual(
      found.map((each) => each.event === "job" && each.job.status),
      ["scheduled", "scheduled", "canceled"],
    );
    const ids = proxy.of("/stream").map((each) => each.headers["last-event-id"]);
    assert.deepEqual(ids, [undefined, "1-0"]); // what ended before execution 1 was told
    for await (const each of client.stream(id)) assert.equal(each.event, "job"); // one that is over ends at once
    await assert.rejects(async () => behind.stream(crypto.randomUUID()).next(), ApiError);
    for await (const _ of client.stream(id, { follow: true })) break; // leaving it closes the connection
  });
});
