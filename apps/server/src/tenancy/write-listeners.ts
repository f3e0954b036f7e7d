// Tells services that a project may have been written to by this node, so that they read its changes at once instead of
// at their next poll.

export interface WriteListeners {
  /** Returns a function that removes the listener. */
  add(projectId: string, listener: () => void): () => void
  /** Calls the listeners of the project when the work has ended without an error. */
  after<T>(projectId: string, work: Promise<T>): Promise<T>
}

export function createWriteListeners(): WriteListeners {
  const ofProjects = new Map<string, Set<() => void>>()
  return {
    add(projectId, listener) {
      const listeners = ofProjects.get(projectId) ?? new Set()
      ofProjects.set(projectId, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && ofProjects.get(projectId) === listeners) ofProjects.delete(projectId)
      }
    },
    after(projectId, work) {
      const listeners = ofProjects.get(projectId)
      if (listeners)
        work.then(
          () => {
            for (const listener of listeners) listener()
          },
          () => {},
        )
      return work
    },
  }
}
