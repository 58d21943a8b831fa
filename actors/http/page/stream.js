// Reads server-sent events with fetch, because an EventSource can't send a token. Reconnects as long as the page is
// open, after growing pauses.

const PAUSES_MS = [500, 1000, 2000, 4000];

export class Refused extends Error {}

export async function follow(token, { begin, step, lost, refused }) {
  let failures = 0;
  for (;;) {
    try {
      const answer = await fetch("/live", { headers: authorization(token()), cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) {
        await refused();
        continue;
      }
      if (!answer.ok) throw new Error(`the service answered with status ${answer.status}`);
      for await (const { event, data } of events(answer.body)) {
        failures = 0;
        (event === "begin" ? begin : step)(JSON.parse(data));
      }
      throw new Error("the service closed the connection");
    } catch (error) {
      lost(error);
    }
    const pause = PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

export async function tell(token, signal) {
  const answer = await fetch("/signals", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...authorization(token()) },
    body: JSON.stringify(signal),
  });
  const told = await answer.json();
  if (answer.status === 401 || answer.status === 403) throw new Refused(told.error);
  if (!answer.ok) throw new Error(told.error);
  return told.detail;
}

function authorization(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const fields = Object.fromEntries(text.slice(0, end).split("\n").map((line) => line.split(/: (.*)/s)));
      yield { event: fields.event, data: fields.data };
    }
  }
}
