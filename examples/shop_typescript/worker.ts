/** The worker: takes the money, sends the goods when the bank says so, and a receipt. */

import { Client, handler, machine, outcome, step, Worker } from "@headway/client";
import { Order, ORDER, Paid, Receipt, RECEIPT } from "./orders.js";

const orders = machine({
  start: step(Order, (order) => {
    const total = order.items.reduce((sum, item) => sum + item.price, 0);
    return outcome.await("paid", { then: "ship", timeout: "3d", state: { ...order, total, paid: "" } });
  }),

  ship: step(Paid, (order, ctx) => {
    const [signal] = ctx.signals;
    if (signal === undefined) return outcome.stop("it was never paid");
    const receipt = { kind: RECEIPT, payload: { order: order.id, email: order.email, total: order.total } };
    return outcome.spawn([receipt], { then: "close", state: { ...order, paid: String(signal.payload) } });
  }),

  close: step(Paid, (order, ctx) =>
    outcome.done({ order: order.id, total: order.total, paid: order.paid, receipt: ctx.children[0]?.result }),
  ),
});

const receipts = handler(Receipt, async ({ order, email, total }, ctx) => {
  ctx.log(`to ${email}`);
  // a mail server would be asked here, with ctx.signal: a canceled job stops waiting for it
  return `receipt for order ${order}: ${total.toFixed(2)}`;
});

const handlers = new Map([
  [ORDER, orders],
  [RECEIPT, receipts],
]);

await new Worker(new Client(), { queues: { default: 5 }, handlers }).run();
