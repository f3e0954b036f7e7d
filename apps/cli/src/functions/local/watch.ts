// Watches the files of functions.
import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'

/** Editors write a file in several steps. */
const settleMilliseconds = 100

export interface WatchOptions {
  root: string
  /** A file with variables; it may be in another folder. */
  envFile: string | undefined
  /** Called with the path that changed first. */
  onChange(path: string): void
  onError(error: Error): void
}

/** Returns a function that ends it. */
export function watchFunctions({ root, envFile, onChange, onError }: WatchOptions): () => void {
  let pending: NodeJS.Timeout | undefined
  const changed = (path: string) => {
    pending ??= setTimeout(() => {
      pending = undefined
      onChange(path)
    }, settleMilliseconds)
  }
  const watchers: FSWatcher[] = []
  const open = (folder: string, isRecursive: boolean, onPath: (path: string) => void) => {
    try {
      const watcher = watch(folder, { recursive: isRecursive }, (_event, path) => {
        if (path !== null) onPath(path)
      })
      watcher.on('error', onError)
      watchers.push(watcher)
    } catch (error) {
      onError(error as Error)
    }
  }
  open(root, true, path => {
    if (!isIgnored(path)) changed(path)
  })
  // The folder, because an editor may replace the file by another one.
  if (envFile !== undefined)
    open(dirname(envFile), false, path => {
      if (path === basename(envFile)) changed(path)
    })
  return () => {
    clearTimeout(pending)
    for (const watcher of watchers) watcher.close()
  }
}

export const isIgnored = (path: string): boolean =>
  path.split('/').some(part => part.startsWith('.') || part === 'node_modules')
