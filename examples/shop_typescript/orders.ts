/** What the route and the worker agree on: the kinds of jobs, and what each of them takes. */

import { z } from "zod";

export const ORDER = "order";
export const RECEIPT = "receipt";

export const Order = z.object({
  id: z.string().min(1),
  email: z.email(),
  items: z.array(z.object({ sku: z.string(), price: z.number().positive() })).min(1),
});

export const Paid = Order.extend({ total: z.number(), paid: z.string() });

export const Receipt = z.object({ order: z.string(), email: z.email(), total: z.number() });
