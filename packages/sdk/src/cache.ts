import type { cacheApi } from '@plinth/contract/cache.ts'
import { type CallOptions, picked, type Result } from './result.ts'
import { fitsPath, type Send } from './transport.ts'
import type { SetBody } from './wire.ts'

/** `ex` and `px` let the value expire, `nx` and `xx` make the write depend on what is there. */
export interface SetOptions extends Omit<SetBody, 'key' | 'value'>, CallOptions {}

export interface CountOptions extends CallOptions {
  /** How much; 1 when left out. */
  by?: number
}

export interface KeysOptions extends CallOptions {
  /** A pattern with `*`, `?`, `[abc]`, `[a-z]`, `[^a]` and `\`; every key when left out. */
  match?: string
  /** About how many keys one request asks for, at most 1000. */
  count?: number
}

export interface ScanOptions extends KeysOptions {
  /** The cursor of the answer before; left out to begin. */
  cursor?: string
}

export interface ScanPage {
  /** Where to go on; `'0'` when everything has been seen. */
  cursor: string
  keys: string[]
}

/** The key-value cache of the project. Keys and values are strings, of any characters. */
export class Cache {
  readonly #send: Send

  /** @internal */
  constructor(send: Send) {
    this.#send = send
  }

  /** Reads a value. An absent or expired key is no error: `data` is null. */
  async get(key: string, options: CallOptions = {}): Promise<Result<string | null>> {
    if (!fitsPath(key)) return this.#getByBody(key, options)
    const answer = this.#send<typeof cacheApi.get>('GET', '/cache/{project}/get/{key}', {
      params: { key },
      ...options,
    })
    const result = await picked(answer, ({ value }) => value)
    return result.error?.code === 'cache_key_not_found' ? { data: null, error: null } : result
  }

  /**
   * Writes a value. `data` is false when `nx` or `xx` was not met, and nothing was written.
   * Without `ex` (seconds) or `px` (milliseconds) the key does not expire, even if it would have before.
   */
  set(key: string, value: string, options: SetOptions = {}): Promise<Result<boolean>> {
    const { signal, ...how } = options
    const answer = this.#send<typeof cacheApi.set>('POST', '/cache/{project}/set', {
      body: { key, value, ...how },
      signal,
    })
    return picked(answer, ({ ok }) => ok)
  }

  /** Deletes one key or several; `data` is how many there were. */
  del(keys: string | readonly string[], options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof cacheApi.del>('POST', '/cache/{project}/del', {
      body: { keys: typeof keys === 'string' ? [keys] : [...keys] },
      ...options,
    })
    return picked(answer, ({ deleted }) => deleted)
  }

  /**
   * Adds to a 64-bit integer and returns the sum; an absent key counts as 0, and the time to live stays.
   * `data` is a bigint when it is beyond what a number holds exactly (`Number.MAX_SAFE_INTEGER`).
   */
  incr(key: string, options: CountOptions = {}): Promise<Result<number | bigint>> {
    const { by = 1, signal } = options
    const answer = this.#send<typeof cacheApi.incr>('POST', '/cache/{project}/incr', {
      body: { key, by },
      signal,
      parse: exactValue,
    })
    return picked(answer, ({ value }) => value)
  }

  /** Subtracts from a 64-bit integer, as `incr` adds. */
  decr(key: string, options: CountOptions = {}): Promise<Result<number | bigint>> {
    const { by = 1, signal } = options
    const answer = this.#send<typeof cacheApi.decr>('POST', '/cache/{project}/decr', {
      body: { key, by },
      signal,
      parse: exactValue,
    })
    return picked(answer, ({ value }) => value)
  }

  /** Lets a key expire in so many seconds; 0 or less deletes it. `data` is false when the key is absent. */
  expire(key: string, seconds: number, options: CallOptions = {}): Promise<Result<boolean>> {
    const answer = this.#send<typeof cacheApi.expire>('POST', '/cache/{project}/expire', {
      body: { key, seconds },
      ...options,
    })
    return picked(answer, ({ applied }) => applied)
  }

  /** The seconds a key has to live: -1 when it does not expire, -2 when it is absent. */
  ttl(key: string, options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof cacheApi.ttl>('GET', '/cache/{project}/ttl/{key}', {
      params: { key },
      ...options,
    })
    return picked(answer, ({ ttl }) => ttl)
  }

  /** Whether a key is present. */
  exists(key: string, options: CallOptions = {}): Promise<Result<boolean>> {
    if (!fitsPath(key)) return picked(this.#getByBody(key, options), value => value !== null)
    const answer = this.#send<typeof cacheApi.exists>('GET', '/cache/{project}/exists/{key}', {
      params: { key },
      ...options,
    })
    return picked(answer, ({ exists }) => exists)
  }

  /** Reads several values, in the order of the keys; null for each that is absent. */
  mget(keys: readonly string[], options: CallOptions = {}): Promise<Result<(string | null)[]>> {
    const answer = this.#send<typeof cacheApi.mget>('POST', '/cache/{project}/mget', {
      body: { keys: [...keys] },
      ...options,
    })
    return picked(answer, ({ values }) => values)
  }

  /** Writes several values, all or none; they do not expire. */
  mset(pairs: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<Result<boolean>> {
    const answer = this.#send<typeof cacheApi.mset>('POST', '/cache/{project}/mset', {
      body: { pairs },
      ...options,
    })
    return picked(answer, ({ ok }) => ok)
  }

  /** One step through the keys: call it again with the cursor it returns, until that is `'0'`. */
  scan(options: ScanOptions = {}): Promise<Result<ScanPage>> {
    const { signal, ...query } = options
    return this.#send<typeof cacheApi.scan>('GET', '/cache/{project}/scan', { query, signal })
  }

  /**
   * Every key, for `for await`. A key that is there throughout comes at least once, and may come again when
   * others are written meanwhile. A loop has no `error` to return, so a refusal is thrown, as a `PlinthError`.
   */
  async *keys(options: KeysOptions = {}): AsyncGenerator<string, void, undefined> {
    let cursor = '0'
    do {
      const { data, error } = await this.scan({ count: 1000, ...options, cursor })
      if (error) throw error
      yield* data.keys
      cursor = data.cursor
    } while (cursor !== '0')
  }

  /** For keys that a URL would lose. */
  #getByBody(key: string, options: CallOptions): Promise<Result<string | null>> {
    return picked(this.mget([key], options), ([value]) => value ?? null)
  }
}

/** `{"value":9007199254740993}`: JSON.parse would round it. */
function exactValue(text: string): { value: number } {
  const digits = /^\s*\{\s*"value"\s*:\s*(-?\d+)\s*\}\s*$/.exec(text)?.[1]
  if (digits === undefined) throw new SyntaxError('not an integer')
  const value = Number(digits)
  // The contract knows numbers only; `incr` and `decr` say what it may be.
  return { value: Number.isSafeInteger(value) ? value : (BigInt(digits) as unknown as number) }
}
