// The page's side of the worker: requests with progress, cancel and errors.

/** What went wrong, as the worker tells it (type failure in wasm/worker). */
export class Failure extends Error {
  constructor({ kind, text, field = "", what = "", limit = "", need = 0, have = 0 }) {
    super(text);
    Object.assign(this, { kind, field, what, limit, need, have });
  }
}

/** How long the worker may take to end a canceled request, in milliseconds. */
const GRACE = 2000;

/**
 * Engine owns the worker. It starts a new one when the old one is broken or
 * does not end what was canceled. It dispatches the event "device" when `device`
 * has changed.
 */
export class Engine extends EventTarget {
  /** Kernels with their tunables; known once a request has been answered. */
  kernels = [];
  /** What the last `open` gave: {adapter, reason, failure}; null before. */
  device = null;
  /** What is tuned on it: {text, problem}, the text as it is kept in this browser, and why one that is kept is not used. */
  tuning = { text: "", problem: "" };

  #worker = null;
  #ready = null;
  #pending = new Map();
  #lastID = 0;

  #start() {
    this.#worker = new Worker("worker.js");
    this.#ready = new Promise((resolve, reject) => {
      this.#worker.onmessage = ({ data }) => {
        if (data.type === "ready") {
          this.kernels = data.kernels;
          resolve();
        } else if (data.type === "broken") {
          this.#end(new Failure({ kind: "broken", text: data.text }), reject);
        } else {
          this.#answer(data);
        }
      };
      this.#worker.onerror = (event) => {
        this.#end(new Failure({ kind: "broken", text: event.message || "The worker could not be loaded." }), reject);
      };
    });
    this.#ready.catch(() => {}); // each request tells of it
  }

  #end(failure, reject) {
    this.#worker.terminate();
    this.#worker = null;
    reject?.(failure);
    for (const { reject } of this.#pending.values()) reject(failure);
    this.#pending.clear();
  }

  #answer({ id, type, value, error }) {
    const request = this.#pending.get(id);
    if (!request) return;
    if (type === "progress") {
      request.progress?.(value);
      return;
    }
    this.#pending.delete(id);
    if (type === "error") request.reject(new Failure(error));
    else request.resolve(value);
  }

  /** Opens a device, or opens it again. */
  async open() {
    try {
      this.device = await this.#send("open", {}, {});
      await this.#restoreTuning();
    } catch (failure) {
      this.device = { adapter: null, reason: "", failure };
    }
    this.dispatchEvent(new Event("device"));
  }

  // The worker has no localStorage.
  async #restoreTuning() {
    this.tuning = { text: "", problem: "" };
    if (!this.device.adapter) return;
    try {
      const text = localStorage.getItem(this.device.tuning_key) ?? "";
      await this.#send("tuning", { text }, {});
      this.tuning.text = text;
    } catch (failure) {
      this.tuning.problem = failure.message;
    }
  }

  /** Keeps what the worker has tuned; throws where this browser keeps nothing. */
  keepTuning(text) {
    this.tuning = { text, problem: "" };
    localStorage.setItem(this.device.tuning_key, text);
  }

  async forgetTuning() {
    await this.request("tuning", { text: "" });
    this.tuning = { text: "", problem: "" };
    localStorage.removeItem(this.device.tuning_key);
  }

  /**
   * Sends a request and returns its result, or throws a Failure.
   * @param {string} kind
   * @param {object} args
   * @param {{progress?: (value: object) => void, signal?: AbortSignal, transfer?: Transferable[]}} options
   */
  async request(kind, args = {}, options = {}) {
    if (!this.#worker) await this.open();
    return this.#send(kind, args, options);
  }

  async #send(kind, args, { progress, signal, transfer }) {
    if (!this.#worker) this.#start();
    await this.#ready;
    if (signal?.aborted) throw new Failure({ kind: "canceled", text: "canceled" });
    const id = ++this.#lastID;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, progress });
      this.#worker.postMessage({ id, kind, ...args }, transfer);
      signal?.addEventListener("abort", () => this.#cancel(id));
    });
  }

  #cancel(id) {
    if (!this.#pending.has(id)) return;
    this.#worker.postMessage({ id, kind: "cancel" });
    setTimeout(() => {
      if (!this.#pending.has(id)) return;
      this.#end(new Failure({ kind: "canceled", text: "canceled" }));
      this.open();
    }, GRACE);
  }
}
