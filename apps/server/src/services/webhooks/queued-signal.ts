// Tells waiting readers of a project on this node that deliveries were queued.
export interface QueuedSignal {
  tell(projectId: string): void
  /** Resolves at the next `tell` of the project, or after the given time. */
  next(projectId: string, ms: number): Promise<void>
}

export function createQueuedSignal(): QueuedSignal {
  const waiting = new Map<string, Set<() => void>>()
  return {
    tell(projectId) {
      for (const wake of waiting.get(projectId) ?? []) wake()
    },
    next: (projectId, ms) =>
      new Promise(resolve => {
        const readers = waiting.get(projectId) ?? new Set()
        waiting.set(projectId, readers)
        const wake = () => {
          clearTimeout(timer)
          readers.delete(wake)
          if (readers.size === 0) waiting.delete(projectId)
          resolve()
        }
        const timer = setTimeout(wake, ms).unref()
        readers.add(wake)
      }),
  }
}
