// Search in a site that is opened from a folder: browsers start no worker there, so its script runs in a hidden frame.
// The plugin `offline` would load a script for that from another host, and takes one of this name instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = this.inside.document.createElement("script")
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve))
      script.src = url
      this.inside.document.body.appendChild(script)
    }

    async postMessage(data) {
      await this.loaded
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
  }
}
