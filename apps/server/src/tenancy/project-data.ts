// Data of services about a project that is not in the project's database: exported to backups, restored from them, and
// copied to other projects, such as branches. All work is done in the caller's transaction on the control database, so
// that an export is consistent and a restore takes effect together with the restored database.
import type { Session } from '#src/kernel/postgres/database.ts'

/** A JSON object. Its service defines the fields. */
export type ExportedRow = Readonly<Record<string, unknown>>

export interface ExportedRows {
  /** The project the rows were exported from. Sealed values are bound to its id. */
  from: string
  rows: AsyncIterable<ExportedRow>
}

export interface ProjectDataHooks {
  /** Sealed values stay sealed. */
  export(session: Session, projectId: string): AsyncIterable<ExportedRow>
  /** Replaces the data of the project, which may be another one than the exported. */
  restore(session: Session, projectId: string, exported: ExportedRows): Promise<void>
  /**
   * Copies the data to a new project. Work that has effects outside the project, such as jobs, is copied switched off.
   * Without this hook the data is exported and restored.
   */
  copy?(session: Session, from: string, to: string): Promise<void>
}

export interface ServiceExport {
  service: string
  rows: AsyncIterable<ExportedRow>
}

export interface ProjectData {
  /** One export per service, to be read one after the other. */
  export(session: Session, projectId: string): ServiceExport[]
  /** Throws before any change if an export belongs to an unknown service. */
  restore(session: Session, projectId: string, from: string, exports: readonly ServiceExport[]): Promise<void>
  copy(session: Session, from: string, to: string): Promise<void>
  addHooks(service: string, hooks: ProjectDataHooks): void
}

export function createProjectData(): ProjectData {
  const hooks = new Map<string, ProjectDataHooks>()

  function hooksOf(service: string): ProjectDataHooks {
    const found = hooks.get(service)
    if (!found)
      throw new Error(
        `This version of the platform has no service "${service}", so its data cannot be restored`,
      )
    return found
  }

  return {
    export: (session, projectId) =>
      [...hooks].map(([service, hook]) => ({ service, rows: hook.export(session, projectId) })),
    async restore(session, projectId, from, exports) {
      const steps = exports.map(({ service, rows }) => ({ hook: hooksOf(service), rows }))
      for (const { hook, rows } of steps) await hook.restore(session, projectId, { from, rows })
    },
    async copy(session, from, to) {
      for (const hook of hooks.values())
        await (hook.copy?.(session, from, to) ??
          hook.restore(session, to, { from, rows: hook.export(session, from) }))
    },
    addHooks: (service, added) => void hooks.set(service, added),
  }
}
