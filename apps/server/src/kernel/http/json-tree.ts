// Builds the value of a JSON body while it is read. Limits are checked before a value is allocated, and no function
// recurses.
import { Refusal } from '#src/kernel/errors.ts'

export interface JsonLimits {
  /** Values in the whole body, including containers. */
  readonly maxValues: number
  /** Accepts the keys `__proto__` and `constructor`, as own properties. */
  readonly anyKey: boolean
  /**
   * Containers at this depth are validated but stay empty in the result. The body itself has depth 1. For callers that
   * forward the bytes and need only the outer values.
   */
  readonly emptyAtDepth?: number
  /** Levels of nesting, 100 by default. More is safe only for code that does not recurse into the value. */
  readonly maxDepth?: number
  /** Accepts lone surrogates that are written as an escape. Postgres does not. */
  readonly allowsLoneSurrogates?: boolean
  /** Called for numbers with an exponent, with its digits. */
  readonly onExponent?: (exponent: string) => void
  /** Records the position of each member with this name, keyed by its object. */
  readonly locate?: { readonly name: string; readonly found: Map<unknown, Span> }
}

/** From `start` to before `end`. */
export interface Span {
  readonly start: number
  readonly end: number
}

export const maxDepth = 100
/** Keys of one object in the result. Code that receives it iterates over all of them without a pause. */
export const maxKeys = 50_000

export const invalidJson = (message = 'The body is not valid JSON', cause?: unknown) =>
  new Refusal('invalid_json', message, { cause })
export const tooDeep = () => invalidJson(`The body is nested more than ${maxDepth} levels deep`)
export const tooManyValues = (limit: number) =>
  new Refusal('body_too_large', `The body holds more than ${limit} values; send it in several requests`)
const tooManyKeys = () =>
  new Refusal('body_too_large', `An object in the body has more than ${maxKeys} keys; split it`)

type Container = unknown[] | Record<string, unknown>

interface Level {
  readonly isList: boolean
  /** Undefined at and below `emptyAtDepth`. */
  readonly container: Container | undefined
  /** Of the current member. */
  key: string
  keys: number
  valueStart: number
}

export class JsonTree {
  readonly #limits: JsonLimits
  readonly #levels: Level[] = []
  #level: Level | undefined
  #values = 0
  value: unknown

  constructor(limits: JsonLimits) {
    this.#limits = limits
  }

  get isOpen(): boolean {
    return this.#level !== undefined
  }
  get isList(): boolean {
    return this.#level?.isList === true
  }

  /** Counts a value that begins here. */
  begin(at: number): void {
    if (++this.#values > this.#limits.maxValues) throw tooManyValues(this.#limits.maxValues)
    if (this.#level) this.#level.valueStart = at
  }

  key(key: string): void {
    const level = this.#level!
    if (!this.#limits.anyKey && key === '__proto__') throw invalidJson()
    if (level.container !== undefined && ++level.keys > maxKeys) throw tooManyKeys()
    level.key = key
  }

  /** Adds a value other than a container. */
  scalar(value: unknown, end: number): void {
    this.#put(value)
    this.#locate(end)
  }

  open(isList: boolean): void {
    const depth = this.#levels.length + 1
    if (depth > (this.#limits.maxDepth ?? maxDepth)) throw tooDeep()
    const made: Container = isList ? [] : {}
    this.#put(made)
    const isBuilt = depth < (this.#limits.emptyAtDepth ?? Number.POSITIVE_INFINITY)
    this.#level = { isList, container: isBuilt ? made : undefined, key: '', keys: 0, valueStart: 0 }
    this.#levels.push(this.#level)
  }

  close(end: number): void {
    const { container } = this.#levels.pop()!
    this.#level = this.#levels.at(-1)
    if (!this.#level) return
    const reachesPrototype =
      !this.#level.isList && this.#level.key === 'constructor' && container !== undefined
    if (reachesPrototype && !this.#limits.anyKey && Object.hasOwn(container, 'prototype')) throw invalidJson()
    this.#locate(end)
  }

  #put(value: unknown): void {
    if (!this.#level) {
      this.value = value
      return
    }
    const { container, isList, key } = this.#level
    if (container === undefined) return
    if (isList) (container as unknown[]).push(value)
    else if (key !== '__proto__') (container as Record<string, unknown>)[key] = value
    else
      Object.defineProperty(container, key, { value, writable: true, enumerable: true, configurable: true })
  }

  #locate(end: number): void {
    const { locate } = this.#limits
    const level = this.#level
    if (locate && level && !level.isList && level.container !== undefined && level.key === locate.name)
      locate.found.set(level.container, { start: level.valueStart, end })
  }
}
