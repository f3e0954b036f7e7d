import type { cacheApi } from '@plinth/contract/cache.ts'
import { type CallOptions, mapResult, type Result } from './result.ts'
import { fitsPath, type Send } from './transport.ts'
import type { SetBody } from './wire.ts'

/** `ex` and `px` set an expiry. `nx` writes only if the key is absent, `xx` only if it exists. */
export interface SetOptions extends Omit<SetBody, 'key' | 'value'>, CallOptions {}

export interface CountOptions extends CallOptions {
  /** The amount. Defaults to 1. */
  by?: number
}

export interface KeysOptions extends CallOptions {
  /** A pattern with `*`, `?`, `[abc]`, `[a-z]`, `[^a]` and `\`. Defaults to all keys. */
  match?: string
  /** The approximate number of keys per request, at most 1000. */
  count?: number
}

export interface ScanOptions extends KeysOptions {
  /** The cursor of the previous result. Omit it to start. */
  cursor?: string
}

export interface ScanPage {
  /** The cursor for the next call; `'0'` at the end. */
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

  /** Reads a value. For an absent or expired key `data` is null, and there is no error. */
  async get(key: string, options: CallOptions = {}): Promise<Result<string | null>> {
    if (!fitsPath(key)) return this.#getByBody(key, options)
    const answer = this.#send<typeof cacheApi.get>('GET', '/cache/{project}/get/{key}', {
      params: { key },
      ...options,
    })
    const result = await mapResult(answer, ({ value }) => value)
    return result.error?.code === 'cache_key_not_found' ? { data: null, error: null } : result
  }

  /**
   * Writes a value. `data` is false if the condition `nx` or `xx` was not met and nothing was written.
   * Without `ex` (seconds) or `px` (milliseconds) the key does not expire; an earlier expiry is removed.
   */
  set(key: string, value: string, options: SetOptions = {}): Promise<Result<boolean>> {
    const { signal, ...setOptions } = options
    const answer = this.#send<typeof cacheApi.set>('POST', '/cache/{project}/set', {
      body: { key, value, ...setOptions },
      signal,
    })
    return mapResult(answer, ({ ok }) => ok)
  }

  /** Deletes one or more keys. `data` is the number of keys that existed. */
  del(keys: string | readonly string[], options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof cacheApi.del>('POST', '/cache/{project}/del', {
      body: { keys: typeof keys === 'string' ? [keys] : [...keys] },
      ...options,
    })
    return mapResult(answer, ({ deleted }) => deleted)
  }

  /**
   * Adds to a 64-bit integer and returns the sum. An absent key counts as 0. The time to live does not change.
   * `data` is a bigint if it is outside the safe range of a number (`Number.MAX_SAFE_INTEGER`).
   */
  incr(key: string, options: CountOptions = {}): Promise<Result<number | bigint>> {
    const { by = 1, signal } = options
    const answer = this.#send<typeof cacheApi.incr>('POST', '/cache/{project}/incr', {
      body: { key, by },
      signal,
      parse: exactValue,
    })
    return mapResult(answer, ({ value }) => value)
  }

  /** Subtracts from a 64-bit integer, as `incr` adds. */
  decr(key: string, options: CountOptions = {}): Promise<Result<number | bigint>> {
    const { by = 1, signal } = options
    const answer = this.#send<typeof cacheApi.decr>('POST', '/cache/{project}/decr', {
      body: { key, by },
      signal,
      parse: exactValue,
    })
    return mapResult(answer, ({ value }) => value)
  }

  /** Sets the expiry of a key in seconds. 0 or less deletes it. `data` is false if the key is absent. */
  expire(key: string, seconds: number, options: CallOptions = {}): Promise<Result<boolean>> {
    const answer = this.#send<typeof cacheApi.expire>('POST', '/cache/{project}/expire', {
      body: { key, seconds },
      ...options,
    })
    return mapResult(answer, ({ applied }) => applied)
  }

  /** The time to live in seconds: -1 without expiry, -2 if the key is absent. */
  ttl(key: string, options: CallOptions = {}): Promise<Result<number>> {
    const answer = this.#send<typeof cacheApi.ttl>('GET', '/cache/{project}/ttl/{key}', {
      params: { key },
      ...options,
    })
    return mapResult(answer, ({ ttl }) => ttl)
  }

  /** Whether a key is present. */
  exists(key: string, options: CallOptions = {}): Promise<Result<boolean>> {
    if (!fitsPath(key)) return mapResult(this.#getByBody(key, options), value => value !== null)
    const answer = this.#send<typeof cacheApi.exists>('GET', '/cache/{project}/exists/{key}', {
      params: { key },
      ...options,
    })
    return mapResult(answer, ({ exists }) => exists)
  }

  /** Reads several values in the order of the keys. Absent keys give null. */
  mget(keys: readonly string[], options: CallOptions = {}): Promise<Result<(string | null)[]>> {
    const answer = this.#send<typeof cacheApi.mget>('POST', '/cache/{project}/mget', {
      body: { keys: [...keys] },
      ...options,
    })
    return mapResult(answer, ({ values }) => values)
  }

  /** Writes several values atomically, without expiry. */
  mset(pairs: Readonly<Record<string, string>>, options: CallOptions = {}): Promise<Result<boolean>> {
    const answer = this.#send<typeof cacheApi.mset>('POST', '/cache/{project}/mset', {
      body: { pairs },
      ...options,
    })
    return mapResult(answer, ({ ok }) => ok)
  }

  /** Returns one page of keys. Repeat it with the returned cursor until that is `'0'`. */
  scan(options: ScanOptions = {}): Promise<Result<ScanPage>> {
    const { signal, ...query } = options
    return this.#send<typeof cacheApi.scan>('GET', '/cache/{project}/scan', { query, signal })
  }

  /**
   * Iterates over all keys with `for await`. A key that exists throughout is returned at least once, and may be repeated if
   * other keys are written meanwhile. A loop cannot return an `error`, so it throws a `PlinthError`.
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

  /** For keys that cannot be a path segment of a URL. */
  #getByBody(key: string, options: CallOptions): Promise<Result<string | null>> {
    return mapResult(this.mget([key], options), ([value]) => value ?? null)
  }
}

/** JSON.parse would round large integers, as in `{"value":9007199254740993}`. */
function exactValue(text: string): { value: number } {
  const digits = /^\s*\{\s*"value"\s*:\s*(-?\d+)\s*\}\s*$/.exec(text)?.[1]
  if (digits === undefined) throw new SyntaxError('not an integer')
  const value = Number(digits)
  // The contract declares a number. `incr` and `decr` declare the bigint.
  return { value: Number.isSafeInteger(value) ? value : (BigInt(digits) as unknown as number) }
}
