// Syncs directories, so that their entries survive a power loss. Concurrent calls for the same directory share one
// fsync. A running fsync may have missed an entry that was created since, so calls during it share the next one.
import fs from 'node:fs'

export class SharedSync {
  readonly #underWay = new Map<string, Promise<void>>()
  readonly #next = new Map<string, Promise<void>>()
  readonly #syncOne: (directory: string) => Promise<void>

  constructor(syncOne = syncDirectory) {
    this.#syncOne = syncOne
  }

  sync(directory: string): Promise<void> {
    const underWay = this.#underWay.get(directory)
    if (!underWay) return this.#start(directory)
    const planned = this.#next.get(directory)
    if (planned) return planned
    const next = underWay
      .catch(() => {})
      .then(() => {
        this.#next.delete(directory)
        return this.#start(directory)
      })
    this.#next.set(directory, next)
    return next
  }

  #start(directory: string): Promise<void> {
    const run = this.#syncOne(directory).finally(() => {
      if (this.#underWay.get(directory) === run) this.#underWay.delete(directory)
    })
    this.#underWay.set(directory, run)
    return run
  }
}

function syncDirectory(directory: string): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.open(directory, fs.constants.O_RDONLY, (failure, fd) => {
      if (failure) return reject(failure)
      fs.fsync(fd, error => {
        fs.closeSync(fd)
        if (error) reject(error)
        else resolve()
      })
    })
  })
}
