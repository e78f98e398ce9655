/** Slots: how many jobs of a queue may run at a time. */

export class Slots {
  #free: number;
  #wake: (() => void) | undefined;

  constructor(
    count: number,
    private readonly stopping: AbortSignal,
  ) {
    this.#free = count;
    stopping.addEventListener("abort", () => this.#wake?.(), { once: true });
  }

  /** Waits until some are free, and takes them all; one caller at a time. Throws when the worker stops. */
  async takeAll(): Promise<number> {
    while (this.#free === 0 && !this.stopping.aborted) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    this.stopping.throwIfAborted();
    const taken = this.#free;
    this.#free = 0;
    return taken;
  }

  release(count = 1): void {
    this.#free += count;
    this.#wake?.();
  }
}
