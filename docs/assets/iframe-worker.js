// Browsers start no worker for a page that is read from a file. The search then runs in a frame that behaves like one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      const load = (address) =>
        new Promise((loaded, failed) => {
          const script = inside.document.createElement("script")
          script.src = address
          script.onload = loaded
          script.onerror = failed
          inside.document.body.appendChild(script)
        })
      inside.importScripts = (...addresses) => addresses.reduce((before, a) => before.then(() => load(a)), Promise.resolve())
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(url)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
