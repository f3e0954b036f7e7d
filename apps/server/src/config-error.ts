/** An invalid setting. The operator sees the message as a single sentence. */
export class ConfigError extends Error {}
