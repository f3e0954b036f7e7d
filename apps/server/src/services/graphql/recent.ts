/** A map of limited size and weight that forgets what was used least recently. */
export class Recent<V> {
  readonly #entries = new Map<string, { value: V; weight: number }>()
  readonly #max: number
  readonly #maxWeight: number
  #weight = 0

  constructor(max: number, maxWeight = Number.POSITIVE_INFINITY) {
    this.#max = max
    this.#maxWeight = maxWeight
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** An entry of more than a quarter of the whole weight is not kept, because it would replace too many others. */
  set(key: string, value: V, weight = 0): void {
    this.delete(key)
    if (weight > this.#maxWeight / 4) return
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    while (this.#entries.size > this.#max || this.#weight > this.#maxWeight)
      this.delete(this.#entries.keys().next().value!)
  }

  delete(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }
}
