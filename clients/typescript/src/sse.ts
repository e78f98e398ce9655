/** Server-sent events: the text of a stream, event by event, as the HTML standard parses it. */

export interface SentEvent {
  event: string;
  data: string;
  /** The last id that the stream has named. */
  id: string;
}

/** The events of a stream of bytes; one that is not complete when it ends is dropped, as the standard says. */
export async function* sentEvents(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<SentEvent> {
  const decoder = new TextDecoder();
  let [text, event, id] = ["", "", ""];
  let data: string[] = [];
  for await (const chunk of bytes) {
    text += decoder.decode(chunk, { stream: true });
    for (;;) {
      // a \r at the very end may be the first half of a line's end
      const end = /\r\n|\n|\r(?!$)/.exec(text);
      if (end === null) break;
      const line = text.slice(0, end.index);
      text = text.slice(end.index + end[0].length);
      if (line === "") {
        if (data.length > 0) yield { event: event || "message", data: data.join("\n"), id };
        [event, data] = ["", []];
        continue;
      }
      const [, name = line, value = ""] = /^([^:]*): ?(.*)$/s.exec(line) ?? [];
      if (name === "event") event = value;
      else if (name === "data") data.push(value);
      else if (name === "id" && !value.includes("\0")) id = value;
    }
  }
}
