// The provider of the canned models for promptfoo: the replies are in replies.json.
const fs = require('fs');
const replies = JSON.parse(fs.readFileSync('replies.json', 'utf8'));
const asked = {};

module.exports = class CannedProvider {
  constructor(options) {
    this.model = options.config.model;
  }

  id() {
    return `canned:${this.model}`;
  }

  async callApi(prompt) {
    const key = `${this.model}/${prompt}`;
    asked[key] = (asked[key] || 0) + 1;
    const reply = replies[this.model][prompt][asked[key] - 1];
    if (reply.error) return { error: reply.error };
    const completion = reply.output.length;
    return {
      output: reply.output,
      tokenUsage: { prompt: 10, completion, total: 10 + completion },
      cost: completion / 1000000,
    };
  }
};
