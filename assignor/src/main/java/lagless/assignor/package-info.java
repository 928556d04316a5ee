/**
 * Places the members of a Kafka consumer group where a plan says, and the rest evenly.
 *
 * <p>Two doors: {@link lagless.assignor.PlanAssignor} runs in a broker, {@link
 * lagless.assignor.ClientPlanAssignor} in a Java consumer. Behind them, in the order in which a
 * plan passes through:
 *
 * <ol>
 *   <li>{@code PlanReader} follows the plan topics on a thread of its own and publishes what it
 *       knows as one immutable {@code Plans}; {@code PlanFormat} and {@code Json} read a message.
 *   <li>{@code Plans.groupOf} finds out which group an assignment is for.
 *   <li>{@code Matching} decides which member is which consumer of the plan.
 *   <li>{@code Placement} applies the plan and spreads what it does not name; both see the group
 *       as the numbers of {@code Group}.
 * </ol>
 *
 * Only {@code PlanReader} does I/O, and nothing here packs: the plan is written elsewhere.
 */
package lagless.assignor;
