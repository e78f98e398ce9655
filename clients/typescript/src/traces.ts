/** Traces: the W3C headers by which what is created here belongs to the trace of what created it. */

import { AsyncLocalStorage } from "node:async_hooks";

interface Trace {
  readonly traceparent: string;
  readonly tracestate?: string | null;
}

/** The trace of the job whose handler runs here. */
export const running = new AsyncLocalStorage<Trace>();

/** The part of OpenTelemetry's registry that is used here. Every copy of its API, of any version 1, registers there. */
interface OpenTelemetry {
  context?: { active(): unknown };
  propagation?: { inject(context: unknown, carrier: Record<string, string>, setter: object): void };
}

const OPEN_TELEMETRY = Symbol.for("opentelemetry.js.api.1");
const setter = { set: (carrier: Record<string, string>, name: string, value: string) => (carrier[name] = value) };

/** Of OpenTelemetry's current span, if the program uses that; else of the job whose handler runs here, if one does. */
export function traceHeaders(): Record<string, string | undefined> {
  const { context, propagation } = (globalThis as { [OPEN_TELEMETRY]?: OpenTelemetry })[OPEN_TELEMETRY] ?? {};
  if (context !== undefined && propagation !== undefined) {
    const { traceparent, tracestate } = injected(propagation, context.active());
    if (traceparent !== undefined) return { traceparent, tracestate };
  }
  const trace = running.getStore();
  return { traceparent: trace?.traceparent, tracestate: trace?.tracestate ?? undefined };
}

function injected(propagation: NonNullable<OpenTelemetry["propagation"]>, context: unknown) {
  const carrier: Record<string, string> = {};
  propagation.inject(context, carrier, setter);
  return carrier as { traceparent?: string; tracestate?: string };
}
