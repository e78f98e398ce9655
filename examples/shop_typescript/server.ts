/** Serves the route with nothing but Node.js. In Next.js this file is not needed: the framework does it. */

import { createServer } from "node:http";
import { GET, POST } from "./app/api/orders/route.js";

const routes: Record<string, (request: Request) => Promise<Response>> = { GET, POST };

const server = createServer(async (asked, answer) => {
  const { pathname } = new URL(asked.url ?? "/", "http://shop");
  const route = pathname === "/api/orders" ? routes[asked.method ?? ""] : undefined;
  if (route === undefined) return void answer.writeHead(404).end();
  const gone = new AbortController();
  answer.on("close", () => gone.abort());
  const parts: Buffer[] = [];
  for await (const part of asked) parts.push(part as Buffer);
  const body = parts.length === 0 ? null : Buffer.concat(parts);
  const init = { method: asked.method ?? "GET", body, signal: gone.signal };
  try {
    const response = await route(new Request(`http://shop${asked.url}`, init));
    answer.writeHead(response.status, { "Content-Type": "application/json" }).end(await response.text());
  } catch (error) {
    console.error(error);
    if (!answer.headersSent) answer.writeHead(503).end();
  }
});

server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  console.log(`listening on ${typeof address === "object" ? address?.port : address}`);
});
