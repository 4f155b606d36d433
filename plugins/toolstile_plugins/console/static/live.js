"use strict";
// The stream of events of all pages of a browser. It is a shared worker, since browsers open six
// connections to a server, and a page that waits for the seventh never loads. Where there is no
// such worker, each page has a stream while it is shown.

const followers = new Map();
let base = "", told = {}, state = "", stream = null, opening = 0;

/** Takes in a page: it says which events it follows, or none, as when it is hidden. */
function join(port) {
  port.onmessage = ({ data }) => {
    followers.delete(port);
    if (data.events) {
      base = data.base;
      followers.set(port, data.events);
      if (state) port.postMessage({ state });
    }
    const wanted = new Set(followers.values());
    const known = Object.keys(told);
    if (known.length !== wanted.size || known.some((events) => !wanted.has(events))) {
      told = Object.fromEntries([...wanted].map((events) => [events, told[events] || ""]));
      open(20);
    }
  };
}

function open(milliseconds) {
  clearTimeout(opening);
  opening = setTimeout(() => {
    if (stream) stream.close();
    stream = null;
    const names = Object.keys(told);
    if (!names.length) { state = ""; return; }
    const query = names.map((events) => `of=${encodeURIComponent(`${events}#${told[events]}`)}`);
    const own = stream = new EventSource(`${base}/events?${query.join("&")}`);
    const pass = (event) => {
      const [place, version] = event.lastEventId.split(" ");
      const events = names[place];
      if (events in told) told[events] = version;
      tell({ news: event.type === "news" ? event.data : null }, events);
    };
    own.onopen = () => tell({ state: state = "live" });
    own.onmessage = pass;
    own.addEventListener("news", pass);
    own.onerror = () => {
      const ended = own.readyState === EventSource.CLOSED;
      tell({ state: state = ended ? "ended" : "lost" });
      // Not by itself, as it would name the versions of its beginning.
      if (!ended) open(1000);
    };
  }, milliseconds);
}

function tell(message, events) {
  for (const [port, followed] of followers) if (!events || followed === events) port.postMessage(message);
}

self.onconnect = (event) => join(event.ports[0]);
