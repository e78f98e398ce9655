/** A route of a server, as Next.js has them: POST places an order, GET says how far it is. The key stays on the server. */

import { Client, Invalid, NotFound } from "@headway/client";
import { Order, ORDER } from "../../../orders.js";

const client = new Client(); // HEADWAY_API and HEADWAY_KEY

export async function POST(request: Request): Promise<Response> {
  const order = Order.safeParse(await request.json().catch(() => undefined));
  if (!order.success) return Response.json({ error: order.error.issues }, { status: 400 });
  // an order that is sent twice is one order, also if this process dies between the two
  const options = { idempotency_key: `order-${order.data.id}`, correlation_id: order.data.id };
  const job = await client.enqueue(ORDER, order.data, options, { signal: request.signal });
  return Response.json({ job: job.id, created: job.created }, { status: job.created ? 202 : 200 });
}

export async function GET(request: Request): Promise<Response> {
  const query = new URL(request.url).searchParams;
  try {
    const found = await client.result(query.get("job") ?? "", { wait: Number(query.get("wait") ?? 0) });
    return Response.json({ status: found.status, result: found.value, error: found.error });
  } catch (error) {
    if (error instanceof NotFound || error instanceof Invalid) return Response.json({ error: error.detail }, { status: 404 });
    throw error;
  }
}
