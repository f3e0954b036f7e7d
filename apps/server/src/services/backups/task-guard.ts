// A task belongs to the node that has claimed it last. A node that is stopped for longer than its lease continues with a
// task that another node has begun again. Then it must not create, drop or exchange databases of the project, because
// these are the databases of the other node.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import * as store from './store.ts'

export interface TaskGuard {
  /** Runs the work while no other node can begin the task again, and the project cannot be deleted. Throws TaskLost. */
  whileOurs<T>(work: () => Promise<T>): Promise<T>
  /** The same until the end of the transaction. */
  hold(session: Session): Promise<void>
  /** Drops databases that the task or an earlier one has created, also those of a deleted project. */
  dropCopy(database: string): Promise<void>
}

/** Another node has begun the task again, or another task has replaced it. That one drops the databases of this one. */
export class TaskLost extends Error {
  constructor() {
    super('another node has begun the task again')
    this.name = 'TaskLost'
  }
}

/** For work on a project that no task does. */
export const withoutTask = (control: Database, projectId: string): Omit<TaskGuard, 'dropCopy'> => {
  async function hold(session: Session): Promise<void> {
    if (!(await store.holdProject(session, projectId))) throw new Error('the project was deleted')
  }
  return {
    hold,
    whileOurs: work =>
      control.transaction(async session => {
        await hold(session)
        return work()
      }),
  }
}

export function guardTask(
  control: Database,
  dropCopy: (database: string) => Promise<void>,
  task: store.Task,
): TaskGuard {
  async function hold(session: Session): Promise<void> {
    if (!(await store.holdTask(session, task))) throw new TaskLost()
    if (!(await store.holdProject(session, task.project_id))) throw new Error('the project was deleted')
  }
  return {
    hold,
    whileOurs: work =>
      control.transaction(async session => {
        await hold(session)
        return work()
      }),
    dropCopy: database =>
      control.transaction(async session => {
        if (!(await store.holdTask(session, task))) throw new TaskLost()
        await dropCopy(database)
      }),
  }
}
