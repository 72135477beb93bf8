// Search without a server: browsers refuse a Worker to pages that are opened from a folder (file://).
// This stand-in runs the worker's script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      this.frame = frame;
      this.ready = new Promise((resolve) => {
        window.addEventListener("message", ({ source, data }) => {
          if (source !== frame.contentWindow) return;
          if (data === "ready") resolve();
          else this.dispatchEvent(new MessageEvent("message", { data }));
        });
      });
      const script = new URL(url, location.href).href;
      frame.hidden = true;
      frame.srcdoc =
        "<script>window.postMessage = (data) => parent.postMessage(data, '*')</" + "script>" +
        `<script src="${script}" onload="postMessage('ready')"></` + "script>";
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
